"""Programs of a PyTorch user, one per case, for torch_test.py: each rank runs
`torch_cases.py CASE`, tells what it saw as lines of JSON, and is watched unless
LOCKSTEP_COORDINATION=off."""

import collections
import dataclasses
import datetime
import json
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._dynamo.utils import counters

import lockstep
import lockstep.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WATCHED = os.environ.get("LOCKSTEP_COORDINATION") != "off"
DEADLINE = 4.0
compiles = 0


def tell(**what):
    print(json.dumps({"rank": RANK, **what}), flush=True)


def counting(graph, inputs):
    global compiles
    compiles += 1
    return graph.forward


def total(x):
    """All ranks together."""
    return functional.all_reduce(x.sum(), "sum", dist.group.WORLD)


def attempt(label, call, *args):
    """A call, and what came of it."""
    began = time.monotonic()
    try:
        seen = {"value": float(call(*args))}
    except Exception as error:
        seen = {"error": type(error).__name__, "text": str(error)}
    tell(call=label, seconds=round(time.monotonic() - began, 2), **seen)
    return "error" not in seen


def branch(watch):
    def step(x):
        if x.size(0) > 3:
            x = functional.all_reduce(x, "max", dist.group.WORLD)
        return total(x)
    compiled = torch.compile(step, backend=counting)
    if attempt("apart", compiled, torch.ones(3 if RANK == 0 else 4, 4)) or WATCHED:
        attempt("together", compiled, torch.ones(4, 4))


flag = 0


def lone_property(watch, name):
    """A property of one rank's input decides on a collective, after a call that all make alike."""
    def step(x, y):
        extra = {"size1": lambda: x.size(0) == 1, "mod8": lambda: x.size(0) % 8 == 0,
                 "duck": lambda: x.size(0) == y.size(0), "requires_grad": lambda: x.requires_grad,
                 "layout": lambda: not x.is_contiguous(), "closure": lambda: flag == 1}[name]()
        if extra:
            x = functional.all_reduce(x.detach().contiguous(), "max", dist.group.WORLD)
        return total(x)
    compiled = torch.compile(step, backend=counting)
    attempt("alike", compiled, torch.ones(6, 7), torch.ones(5))
    if name == "mod8":
        attempt("alike", compiled, torch.ones(7, 7), torch.ones(5))
    x = {"size1": torch.ones(1, 7), "mod8": torch.ones(8, 7), "duck": torch.ones(5, 7),
         "requires_grad": torch.ones(6, 7, requires_grad=True),
         "layout": torch.ones(7, 6).t()}.get(name, torch.ones(6, 7))
    if RANK == 0:
        global flag
        flag = int(name == "closure")
    attempt("apart", compiled, x if RANK == 0 else torch.ones(6, 7), torch.ones(5))
    flag = 0
    if WATCHED:
        attempt("together", compiled, torch.ones(6, 7), torch.ones(5))


def alone(watch):
    """Only rank 0 needs another version; the collectives stay the same."""
    compiled = torch.compile(total, backend=counting)
    for rows in ((5, 5), (6, 7), (1, 8), (9, 9), (4, 4)):
        attempt("step", compiled, torch.ones(rows[RANK % 2]))
    tell(compiles=compiles)


def frames(watch):
    def train(x):
        return functional.all_reduce(x.sum() * 6, "sum", dist.group.WORLD)

    def evaluate(x):
        return functional.all_reduce(x.sum(), "sum", dist.group.WORLD)
    both = [torch.compile(f, backend=counting) for f in (train, evaluate)]
    attempt("first encounter", both[RANK > 0], torch.ones(1))
    for one in both:
        attempt("alike", one, torch.ones(2))
    attempt("found in caches", both[RANK > 0], torch.ones(2))
    attempt("alike", both[0], torch.ones(2))


def encounter(watch):
    """Rank 0 meets a frame for the first time while the others find it in their caches."""
    compiled = torch.compile(lambda x: x.sum() * 2, backend=counting)
    watch.close()
    if RANK > 0:
        compiled(torch.ones(3))
    for policy in ("recompile", "audit", "error"):
        before, found = compiles, []
        with lockstep.torch.watch(policy, deadline=DEADLINE, report=lambda f: found.append(f.text)):
            attempt(policy, compiled, torch.ones(3))
        tell(policy=policy, compiles=compiles - before, found=found)
        torch.compiler.reset() if RANK == 0 else None


def loader(watch):
    """An exception in one rank's data loader, which ends that rank."""
    compiled = torch.compile(total, backend=counting)

    def batches():
        for number in range(5):
            if RANK == 0 and number == 3:
                raise OSError("no such shard")
            yield torch.ones(number + 2)
    for number, batch in enumerate(batches()):
        if not attempt(f"batch {number}", compiled, batch):
            sys.exit(3)


def batches(watch):
    compiled = torch.compile(total, backend=counting)
    for number in range(3 if RANK == 0 else 5):
        if not attempt(f"batch {number}", compiled, torch.ones(4)):
            sys.exit(3)


def slow(watch):
    """A recompile that takes longer than the others' time-out, and longer than the watch's deadline."""
    def backend(graph, inputs):
        if RANK == 0 and counters["frames"]["total"] > 1:
            time.sleep(11)
        return counting(graph, inputs)
    compiled = torch.compile(total, backend=backend)
    for rows in (4, 5):
        attempt("step", compiled, torch.ones(rows if RANK == 0 else 4))


def nested(watch):
    """A backend that compiles: the graph of the frame itself is compared all the same."""
    def backend(graph, inputs):
        torch.compile(lambda y: y * 2, backend="eager")(torch.ones(2))
        return counting(graph, inputs)

    def step(x):
        return functional.all_reduce(x, "sum" if RANK == 0 else "max", dist.group.WORLD).sum()
    attempt("apart", torch.compile(step, backend=backend), torch.ones(3))
    attempt("together", torch.compile(total, backend=backend), torch.ones(3))


def names(watch):
    """Two functions of one name."""
    def made(factor):
        return lambda x: functional.all_reduce((x * factor).sum(), "sum", dist.group.WORLD)
    both = [torch.compile(made(torch.tensor(float(factor))), backend=counting) for factor in (1, 100)]
    for one in both:
        attempt("alike", one, torch.ones(1))
    attempt("apart", both[RANK > 0], torch.ones(1))


def one_breaks(watch, where):
    """On rank 0 torch gives up the frame, and runs it without a graph."""
    def step(x):
        for _ in range(2):
            if RANK == 0:
                torch._dynamo.graph_break()
            x = x * 2
        return total(x) if where == "collective" else x.sum()
    both = torch.compile(step, backend=counting)
    attempt("apart", both, torch.ones(2))
    attempt("after", torch.compile(total, backend=counting), torch.ones(2))
    attempt("together", torch.compile(total, backend=counting), torch.ones(2))


def handled(watch):
    """A compiled function is called where an exception is handled."""
    try:
        raise ValueError("harmless")
    except ValueError:
        attempt("nothing to trace", torch.compile(lambda x: 3, backend=counting), torch.ones(2))
        attempt("together", torch.compile(total, backend=counting), torch.ones(2))


def waits(watch):
    """Rank 0 works for longer than the deadline, in a loop of one call."""
    compiled = torch.compile(total, backend=counting)
    attempt("together", compiled, torch.ones(3))
    if RANK == 0:
        for _ in range(int(DEADLINE * 30)):
            time.sleep(0.1)
    attempt("together", compiled, torch.ones(3))


def reset(watch):
    """torch.compiler.reset() forgets the versions, and is not to forget the watch."""
    def train(x):
        return functional.all_reduce(x.sum() * 6, "sum", dist.group.WORLD)
    compiled = [torch.compile(f, backend=counting) for f in (total, train)]
    attempt("alike", compiled[0], torch.ones(3))
    torch.compiler.reset()
    attempt("apart", compiled[RANK > 0], torch.ones(3))
    attempt("alike", compiled[0], torch.ones(3))
    tell(compiles=compiles)


def gone(watch, how, where):
    """Rank 0 is killed or stopped while it traces, compiles, or is in a collective."""
    number = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}[how]

    def strike(after=0.0):
        tell(struck=time.time() + after)
        if after == 0:
            os.kill(os.getpid(), number)
        threading.Timer(after, os.kill, (os.getpid(), number)).start()

    def backend(graph, inputs):
        if RANK == 0:
            strike()
        return counting(graph, inputs)
    if where == "trace":
        leaf = torch._dynamo.allow_in_graph(lambda x: strike() or x if RANK == 0 else x)
        compiled = torch.compile(lambda x: total(leaf(x)), backend=counting)
    elif where == "backend":
        compiled = torch.compile(total, backend=backend)
    elif where == "inductor":
        def many(x):
            for i in range(60 if RANK == 0 else 1):
                x = torch.sin(x) @ torch.cos(x.t() * i) @ x
            return total(x)
        compiled = torch.compile(many)
    else:
        compiled = torch.compile(total, backend=counting)
        attempt("step", compiled, torch.ones(4, 4))
        if RANK == 0:
            strike()
        dist.barrier()
    if RANK == 0 and where == "inductor":
        strike(1.5)
    began = time.monotonic()
    try:
        compiled(torch.ones(4, 4))
    finally:
        tell(seconds=time.monotonic() - began)


def eager(watch):
    x = torch.ones(3)
    attempt("together", lambda: dist.all_reduce(x) or x.sum())
    attempt("apart", lambda: (dist.all_reduce(x) if RANK == 0 else dist.broadcast(x, 0)) or x.sum())


def eager_sizes(watch):
    """Collectives that pair and should not have: the next frame's vote tells."""
    compiled = torch.compile(total, backend=counting)
    x = torch.ones(3)
    attempt("frame", compiled, x)
    if RANK == 0:
        dist.all_reduce(x)
    else:
        dist.all_reduce(torch.ones(3, dtype=torch.int32).float())
        dist.all_reduce(x)
    if RANK == 0:
        dist.all_reduce(torch.ones(3), op=dist.ReduceOp.MAX)
        dist.all_reduce(torch.ones(1, 3))
    else:
        dist.all_reduce(torch.ones(3))
    attempt("apart", compiled, x)
    attempt("together", compiled, x)


def same_work(watch):
    """What is compiled, and what comes out, with graph breaks and eager collectives in between."""
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            y = self.linear(x).relu()
            print("a graph break", file=sys.stderr)
            return y * 2
    torch.manual_seed(1)
    model = torch.nn.Sequential(Block(), Block())
    compiled = torch.compile(model, backend="aot_eager")
    step = torch.compile(total, backend="aot_eager")
    out = []
    for number in range(6):
        loss = step(compiled(torch.full((2 + (number * (RANK + 1)) % 3, 4), 0.5)))
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        out.append(float(loss))
    tell(losses=out, gradient=float(sum(p.grad.abs().sum() for p in model.parameters())),
         frames=counters["frames"]["ok"], graphs=counters["stats"]["unique_graphs"],
         issued=watch._issued.take() if WATCHED else None)


# lockstep.torch.compile() in place of torch.compile.

def compiled(step, **options):
    return lockstep.torch.compile(step, **{"backend": counting, **options})


def compiled_branch(watch):
    def step(x):
        if x.size(0) > 3:
            x = functional.all_reduce(x, "max", dist.group.WORLD)
        return total(x)
    agreed = compiled(step)
    attempt("apart", agreed, torch.ones(3 if RANK == 0 else 4, 4))
    attempt("together", agreed, torch.ones(4, 4))


@dataclasses.dataclass
class Batch:
    tokens: torch.Tensor
    mask: object
    scale: int


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 2))
        self.register_buffer("shift", torch.ones(2))

    def forward(self, batch, extra, *, train=True, rate=0.5):
        y = batch.tokens @ self.weight + self.shift
        if train:
            y = y * batch.scale
        if batch.mask is not None:
            y = y * batch.mask
        return total(y) * rate + extra["more"][0].sum()


def compiled_inputs(watch):
    model = Reader()
    agreed, eager = compiled(model), model
    assert set(agreed.state_dict()) == {"_orig_mod.weight", "_orig_mod.shift"}
    for call in range(8):
        rows = 2 + (call * (RANK + 2)) % 5
        batch = Batch(torch.ones(rows, 3), None if call % 2 else torch.ones(rows, 1), 1 + call + RANK * (call > 4))
        extra = {"more": [torch.ones(2 + (call + RANK) % 3)]}
        seen = agreed(batch, extra, train=call % 3 != 0, rate=0.25)
        want = eager(batch, extra, train=call % 3 != 0, rate=0.25)
        tell(call=f"call {call}", value=float(seen), eager=float(want), entry=agreed.agreed.last.entry)
        seen.backward()
    tell(compiles=compiles, votes=watch.votes)


def compiled_layouts(watch):
    """Orders of dims in memory that differ between ranks and calls."""
    seen = []

    def backend(graph, inputs):
        seen.extend(tuple(x.stride()) for x in inputs if isinstance(x, torch.Tensor))
        return counting(graph, inputs)

    def step(x):
        x.add_(1)
        return total(x * torch.arange(6.0).reshape(2, 3))
    transposed = [torch.zeros(3, 2).t(), torch.zeros(2, 3)]
    gaps = [torch.zeros(2, 6)[:, ::2], torch.zeros(2, 9)[:, ::3]]
    for name, calls in {
            "alike": [transposed[0], transposed[0].clone(), torch.zeros(3, 2).t()],
            "apart": [transposed[RANK % 2], transposed[1 - RANK % 2], transposed[0]],
            "later": [transposed[1], transposed[RANK % 2], transposed[1 - RANK % 2]],
            "gaps": [gaps[RANK % 2], gaps[1 - RANK % 2], gaps[0]]}.items():
        seen.clear()
        before = compiles
        agreed = compiled(step, name=name, backend=backend)
        for x in calls:
            x.zero_()
            attempt(name, agreed, x)
            tell(written=float(x.sum()))
        tell(name=name, compiles=compiles - before, strides=seen, fallbacks=agreed.agreed.fallbacks)
    grad = compiled(lambda x: total(x * torch.arange(6.0).reshape(2, 3)), name="gradient")
    x = transposed[RANK % 2].detach().requires_grad_()
    grad(x).backward()
    tell(gradient=x.grad.flatten().tolist())


def compiled_one_vote(watch):
    """Calls like the one before make one vote, and ranks of which one is apart stay in step."""
    global flag

    def step(x, y=None):
        return total(x * 2 if flag else x)
    agreed = compiled(step)
    attempt("call", agreed, torch.ones(4))
    before = watch.votes
    for _ in range(3):
        attempt("call", agreed, torch.ones(4))
    tell(votes=watch.votes - before)
    apart = RANK == SIZE - 1
    attempt("call", lambda x: agreed(x=x) if apart else agreed(x), torch.ones(4))  # a structure not seen before
    dist.all_reduce(torch.ones(1))  # which the next vote has to tell
    attempt("call", agreed, torch.ones(4))
    before = watch.votes
    attempt("call", agreed, torch.ones(4))
    tell(votes=watch.votes - before)
    flag = int(apart)  # a guard of PyTorch's own
    attempt("flag", agreed, torch.ones(4))
    flag = 0
    attempt("call", agreed, torch.ones(4))
    if apart:
        torch.compiler.reset()
    attempt("call", agreed, torch.ones(4))
    attempt("call", agreed, torch.ones(4))
    attempt("rows", agreed, torch.ones(4 + apart))
    attempt("call", agreed, torch.ones(4))

    attempt("call", agreed, torch.ones(4))
    attempt("refused", agreed, torch.ones(4), 2**63 if apart else None)  # while the others are like before
    attempt("call", agreed, torch.ones(4))
    if apart:  # an exception of its own, between calls
        watch.group.trouble("the data loader is broken")
    attempt("trouble", agreed, torch.ones(4))
    attempt("call", agreed, torch.ones(4))
    tell(compiles=compiles, last=agreed.agreed.last.is_new)


def compiled_small(watch):
    """Sizes of 0 and 1 on some rank; a model that needs a size's value, and one that does not."""
    def plain(x):
        return total(x.relu() * x.size(0))

    def needs(x):
        return total(x * 2 if x.size(0) > 4 else x)
    for name, step in (("plain", plain), ("needs", needs)):
        agreed = compiled(step)
        for rows in ((5, 6), (7, 5), (0, 5), (1, 0), (6, 8), (1, 1), (8, 9)):
            attempt(f"{name} {rows}", agreed, torch.ones(rows[RANK % 2]))
        tell(model=name, fallbacks=agreed.agreed.fallbacks, compiles=compiles)


def compiled_fails(watch):
    """A call that runs uncompiled, and fails on one rank alone."""
    bad = []

    def needs(x):
        y = total(x * 2 if x.size(0) > 4 else x)
        if bad:
            raise OSError("on this rank alone")
        return total(x) + y * 0
    agreed = compiled(needs)
    for call in ("well", "well", "fails", "well"):
        if call == "fails" and RANK == 0:
            bad.append(1)
        attempt(call, agreed, torch.ones(RANK))
        bad.clear()
    tell(fallbacks=agreed.agreed.fallbacks)


def compiled_lone(watch, name):
    """Something that only torch's own guards see is different on rank 0."""
    global flag
    def step(x):
        if flag == 1:
            x = functional.all_reduce(x, "max", dist.group.WORLD)
        return total(x * 2 if flag == 2 else x)
    agreed = compiled(step)
    attempt("alike", agreed, torch.ones(6, 7))
    if RANK == 0:
        flag = {"collective": 1, "value": 2}.get(name, 0)
    x = {"layout": torch.ones(7, 6).t(), "gradient": torch.ones(6, 7, requires_grad=True)}.get(name, torch.ones(6, 7))
    attempt("apart", agreed, x if RANK == 0 else torch.ones(6, 7))
    flag = 0
    attempt("together", agreed, torch.ones(6, 7))
    tell(compiles=compiles)


def compiled_slow(watch):
    def backend(graph, inputs):
        time.sleep(3 * DEADLINE if RANK == 0 else 0)
        return counting(graph, inputs)
    attempt("step", lockstep.torch.compile(total, backend=backend), torch.ones(4))


def compiled_again(watch):
    """Guards that the decision knows nothing of: training, and strides. Sizes stay symbols."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.0))
    agreed = compiled(model)
    found = []
    watch._report = found.append
    for mode in (True, False, True):
        agreed.train(mode)
        for rows in (4 + 2 * RANK, 7 - RANK):
            attempt("rows", lambda: agreed(torch.ones(rows, 3)).shape[0] / rows)
    strided = compiled(total, name="strided")
    attempt("strided", strided, torch.ones(4 + RANK, 6)[:, ::2])
    attempt("strided", strided, torch.ones(5 - RANK, 6)[:, ::2])
    tell(compiles=compiles, found=[finding.text for finding in found])


def compiled_module(watch):
    """What programs do with a module, and with functions."""
    import copy
    import io
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5)).eval()
    agreed = compiled(model)
    assert not agreed.training and not copy.deepcopy(agreed).training
    out = io.BytesIO()
    torch.save(agreed, out)
    out.seek(0)
    loaded = torch.load(out, weights_only=False)
    assert type(loaded) is torch.nn.Sequential and set(loaded.state_dict()) == set(model.state_dict())
    agreed.alpha = 3.0
    assert model.alpha == agreed.alpha == 3.0
    agreed.train()
    assert model.training and model[1].training

    class Holder:
        scale = torch.tensor(2.0)

        @compiled
        def step(self, x):
            return total(x * self.scale)
    attempt("method", Holder().step, torch.ones(4))

    def many(x, device, dtype, act, choice, *rest, self=1, **more):
        return total(act(x.to(device=device, dtype=dtype)) * self * len(rest) * more["factors"]["a"])
    ordinary = compiled(many)
    attempt("ordinary", lambda: ordinary(torch.ones(4), torch.device("cpu"), torch.float32, torch.nn.ReLU(),
                                         signal.SIGTERM, 1, 2, self=3,
                                         factors=collections.defaultdict(int, a=2)))
    inner = compiled(lambda x: x * 2, name="inner")
    outer = torch.compile(lambda x: total(inner(x)), backend=counting, fullgraph=True)
    attempt("inner", outer, torch.ones(4))
    attempt("inner", compiled(lambda x: total(inner(x)), name="outer"), torch.ones(4))
    layer = compiled(torch.nn.Identity())
    whole = torch.compile(lambda x: total(layer(x) * 2), backend=counting, fullgraph=True)
    attempt("inner", whole, torch.ones(4))
    collectives = compiled(lambda x: total(x * (2 if RANK else 3)), name="collectives", consistency="same_collectives")
    attempt("same collectives", collectives, torch.ones(4))
    norm = torch.nn.BatchNorm1d(2)
    with torch.compiler.set_stance("force_eager"):
        compiled(norm, name="norm")(torch.ones(4, 2))
    assert int(norm.num_batches_tracked) == 1
    seen = []
    recorded = compiled(lambda x: seen.append(float(x.sum())) or total(x), fullgraph=False, name="recorded")
    attempt("recorded", recorded, torch.ones(3))
    assert seen == [3.0], seen

    def fails(x):
        if x.size(0) > 4:
            raise MemoryError("too many rows")
        return total(x)
    tries = compiled(fails, fullgraph=False, name="tries")
    attempt("too many", tries, torch.ones(6))
    attempt("fewer", tries, torch.ones(3))
    watch.close()
    attempt("closed", ordinary, torch.ones(4))


def compiled_break(watch):
    def step(x):
        print("a graph break", file=sys.stderr)
        return total(x)
    attempt("whole", compiled(step), torch.ones(4))
    attempt("in pieces", compiled(step, fullgraph=False), torch.ones(4 + RANK))


def compiled_marks(watch):
    agreed = compiled(total)
    for call, rows in enumerate((4, 5, 6)):
        x = torch.ones(rows, 3)
        if call == 0:
            torch._dynamo.mark_dynamic(x, 0)
        attempt("marked", agreed, x)
    tell(compiles=compiles, text=agreed.agreed.last.decision.text)
    fixed = compiled(lambda x: total(x) if x.size(0) == 4 else total(x) * 2, name="fixed")
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    attempt("broken mark", fixed, x)


def wrapped(watch, how, via):
    """DDP, FSDP2, tensor parallelism and checkpointing, against eager code with the same values."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.utils.checkpoint import checkpoint

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x):
            if how == "checkpoint":
                return self.b(checkpoint(lambda y: self.a(y).relu(), x, use_reentrant=False))
            return self.b(self.a(x).relu())

    class Text(torch.nn.Module):
        """Upstream's: a sharded BERT with checkpointed layers."""

        def __init__(self):
            super().__init__()
            from transformers import BertConfig, BertModel
            self.bert = BertModel(BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, intermediate_size=32,
                                             num_attention_heads=2, hidden_dropout_prob=0.0,
                                             attention_probs_dropout_prob=0.0))
            self.bert.gradient_checkpointing_enable({"use_reentrant": False})

        def forward(self, x):
            return self.bert((x * 63).long()).last_hidden_state

    def made():
        torch.manual_seed(0)
        net = Text() if how == "bert" else Net()
        if how == "bert":
            for layer in net.bert.encoder.layer:
                fully_shard(layer)
            fully_shard(net)
        if how == "fsdp2":
            for module in (net.a, net.b, net):
                fully_shard(module)
        if how == "dtensor":
            parallelize_module(net, init_device_mesh("cpu", (SIZE,)), {"a": ColwiseParallel(), "b": RowwiseParallel()})
        return net

    losses = []
    for run in (via, "eager"):
        net = made()
        if run == "eager":
            step = net
        elif run == "refused":
            try:
                compiled(torch.nn.parallel.DistributedDataParallel(net) if how == "ddp" else net)
            except TypeError as error:
                return tell(refused=str(error))
        else:
            whole = how not in ("fsdp2", "bert")
            step = (torch.compile(net, backend="aot_eager") if run == "watch" and how != "ddp"
                    else net if run == "watch" else compiled(net, backend="aot_eager", fullgraph=whole))
        if how == "ddp":
            step = torch.nn.parallel.DistributedDataParallel(step)
            if run == "watch":
                step = torch.compile(step, backend="aot_eager")
        adam = torch.optim.SGD(net.parameters(), 0.1)
        mine = []
        for number in range(5):
            own = 0 if how == "dtensor" else RANK
            torch.manual_seed(10 * number + own)
            loss = step(torch.rand(4 + number + own * (number > 1), 8)).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            mine.append(loss.item())
        losses.append(mine)
    tell(losses=losses, votes=watch.votes)


def upstream(watch, number, via):
    """Tests of torch's own compiler collectives, by what they do: inputs of rank 0 and of the others."""
    other = int(RANK > 0)
    xs = [torch.ones(10), torch.ones(10) * 2, torch.ones(10) * 3, torch.ones(10) * 4]
    ints = [10, 11, 12, 13]

    def breaks(x):
        print("between", file=sys.stderr)
        return x.sum() * 2
    step, calls = {
        "1": (torch.nn.Linear(10, 2), [torch.ones(b, 10) for b in ((5, 8, 6), (6, 6, 3))[other]]),
        "2": (lambda x, y: x + torch.ones(y).sum(), [(torch.ones(5), y) for y in ((3, 3, 7), (3, 4, 9))[other]]),
        "3": (lambda x, y: x.sum() + y.sum() + x.size(0), [(torch.ones((4, 3)[other]), torch.ones(4))]),
        "4": (breaks, [torch.ones(n) for n in ((5, 5, 6), (3, 4, 5))[other]]),
        "5": (lambda x: x.sum() * 2, [torch.ones(4, 2) if RANK == 0 else torch.ones(3)]),
        "6": (lambda x: xs[RANK % 4].sum() + x, [torch.ones(2)]),
        "7": (lambda x: torch.tensor(ints[RANK % 4]) + x, [torch.ones(2)]),
        "8": (lambda x: torch.ones(3) * x, [torch.ones(3) if RANK == 0 else 12]),
        "9": (lambda x: x.sum() * 2, [torch.ones(n) for n in ((10, 10), (10, 12))[other]]),
    }[number]
    name = {"name": f"upstream {number}"}
    if via == "compile":
        called = compiled(step, fullgraph=number != "4", **name)
        if number == "1":
            called = torch.nn.parallel.DistributedDataParallel(called)
    else:
        called = torch.compile(torch.nn.parallel.DistributedDataParallel(step) if number == "1" else step,
                               backend=counting)
    for inputs in calls:
        args = inputs if isinstance(inputs, tuple) else (inputs,)
        attempt("step", lambda: called(*args).sum())
    tell(compiles=compiles if via == "compile" else watch.compiles, wanted=[float(step(*(i if isinstance(i, tuple) else (i,))).sum()) for i in calls])


@torch.library.custom_op("cases::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    """Of which each rank has its own backward pass, while `flag` says so."""
    return x * 2


scaled.register_fake(torch.empty_like)


def _scaled_backward(context, gradient):
    alone = flag == 1 and RANK == 0
    return functional.all_reduce(gradient, "max", dist.group.WORLD) * 2 if alone else gradient * 2


scaled.register_autograd(_scaled_backward)


def backward(watch, via):
    """Rank 0 has a collective in its backward pass only."""
    global flag

    def loss(x):
        return scaled(x * x).sum()

    def gradient(x):
        x.requires_grad_()
        agreed(x).backward()
        return dist_total(x.grad)

    def dist_total(x):
        out = x.sum()
        dist.all_reduce(out)
        return out
    make = torch.compile if via == "watch" else lockstep.torch.compile
    agreed = make(loss, backend="aot_eager")
    flag = 1
    if not attempt("apart", gradient, torch.ones(6)) and WATCHED:
        flag = 0
        attempt("apart again", gradient, torch.ones(6))
        agreed = make(lambda x: scaled(x + x * x).sum(), backend="aot_eager")
        attempt("together", gradient, torch.ones(6))


def _wave(x, w):
    return torch.tanh(torch.sin(x @ w).exp().cos() @ w).sum()


def split(watch, via):
    """Ranks save other values for their backward pass."""
    from torch._functorch import config
    config.activation_memory_budget = 0.0 if RANK == 0 else 1.0

    def gradient(x, w):
        x.requires_grad_()
        agreed(x, w).backward()
        return x.grad.sum()
    agreed = torch.compile(_wave, backend="aot_eager_decomp_partition") if via == "watch" else lockstep.torch.compile(
        _wave, backend="aot_eager_decomp_partition", consistency=via)
    torch.manual_seed(0)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    plain = x.clone().requires_grad_()
    _wave(plain, w).backward()
    attempt("step", lambda: (gradient(x, w) - plain.grad.sum()).abs() < 1e-5)
    tell(found=watch.summary())


def compiled_dtypes(watch):
    """Dtypes of torch that lockstep has no names for, beside a strided tensor with a gradient."""
    def step(z, q, w):
        return total(z.real @ w) + q.float().sum()
    agreed = compiled(step)
    for rows in (3, 4 + RANK, 7 - RANK):
        z = torch.ones(rows, 4, dtype=torch.complex64)
        q = torch.ones(rows, 2).to(torch.float8_e4m3fn)
        attempt("step", lambda: agreed(z, q, torch.ones(2, 4).t().requires_grad_()).detach() - q.float().sum())
    tell(compiles=compiles, rows=[3, 4 + RANK, 7 - RANK])
    if WATCHED:
        attempt("other", agreed, z if RANK else z.real, q, torch.ones(2, 4).t().requires_grad_())


def compiled_fields(watch):
    """The ranks pad to the largest of them, in steps of 8."""
    def step(x):
        return total(torch.nn.functional.pad(x, (0, agreed.agreed.fields["capacity"] - x.size(0))).sum() / 1)
    agreed = compiled(step, name="step", fields=lambda x: {"capacity": (-(-x.size(0) // 8) * 8, "max"),
                                                          "ranks": (RANK, "union")})
    for rows in (3 + RANK, 5, 7 + 3 * RANK, 4):
        attempt("step", agreed, torch.ones(rows))
        tell(fields={name: list(value) if isinstance(value, tuple) else value
                     for name, value in agreed.agreed.fields.items()})
    tell(compiles=compiles)
    if WATCHED:
        other = compiled(lambda x: total(x), name="other", fields=lambda x: {"rank": (RANK, "equal")})
        attempt("other", other, torch.ones(3))


def upstream_11(watch):
    """Rank 0 compiles for longer than the time-out of the others' collectives."""
    limit = dist.distributed_c10d._set_pg_timeout
    compiled = torch.compile(total, backend=slow_backend)
    limit(datetime.timedelta(seconds=3), dist.group.WORLD)
    attempt("step", compiled, torch.ones(4))
    tell(compiles=compiles)


def slow_backend(graph, inputs):
    time.sleep(6 if RANK == 0 else 0)
    return counting(graph, inputs)


def upstream_12(watch):
    """The same where the others find the version in their caches on disk."""
    from torch._inductor.compile_fx import compile_fx

    def backend(graph, inputs):
        time.sleep(6 if RANK == 0 else 0)
        return compile_fx(graph, inputs)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.environ["CACHES"], str(RANK))
    limit = dist.distributed_c10d._set_pg_timeout
    compiled = torch.compile(lambda x: (x * 2).sum(), backend=backend)

    def step(x):
        out = compiled(x)
        dist.all_reduce(out)
        return out
    watch.close()
    limit(datetime.timedelta(seconds=200), dist.group.WORLD)
    if RANK > 0:
        compiled(torch.ones(4))
        torch.compiler.reset()
        counters.clear()
    dist.barrier()
    limit(datetime.timedelta(seconds=3), dist.group.WORLD)
    with lockstep.torch.watch(deadline=DEADLINE):
        attempt("step", step, torch.ones(4))
    tell(finds=counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"])


def cached(watch):
    """Rank 0 has a version on its disk, and traces no backward graph."""
    watch.close()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.environ["CACHES"], str(RANK))
    compiled = torch.compile(lambda x: (x * x).sum())
    if RANK == 0:
        compiled(torch.ones(4, requires_grad=True)).backward()
        torch.compiler.reset()
    with lockstep.torch.watch("error"):
        attempt("step", lambda: compiled(torch.ones(4, requires_grad=True)))
    tell(hits=counters["aot_autograd"]["autograd_cache_hit"])


def once(watch, run):
    """Each rank has caches of its own, and its compiler tells of each run."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    agreed = lockstep.torch.compile(model)
    rows = 3 + RANK if run != "alike" else 3
    attempt("step", lambda x: agreed(x).mean(), torch.ones(2, rows, 8))
    for p in model.parameters():
        p.grad = None
    agreed(torch.ones(2, rows, 8)).mean().backward()
    tell(gradient=float(model[0].weight.grad.sum()), builds=counters["inductor"]["fxgraph_cache_miss"],
         finds=counters["inductor"]["fxgraph_cache_hit"], plain=float(model(torch.ones(2, 3, 8)).mean()),
         last=agreed.agreed.last.decision.text)


def main() -> None:
    case, *arguments = sys.argv[1].split(":")
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=9))
    watch = lockstep.torch.watch(os.environ.get("POLICY", "recompile"), deadline=DEADLINE)
    globals()[case](watch, *arguments)
    watch.close()
    tell(end=True)
    os._exit(0)  # gloo may wait in its own end for what went wrong before


main()
