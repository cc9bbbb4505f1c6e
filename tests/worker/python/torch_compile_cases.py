"""Programs that use lockstep.torch.compile()."""

import collections
import dataclasses
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import lockstep.torch
import torch_case as case
from torch_case import DEADLINE, RANK, SIZE, WATCHED, attempt, compiled, counting, tell, total

flag = 0


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
    tell(compiles=case.compiles, votes=watch.votes)


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
        before = case.compiles
        agreed = compiled(step, name=name, backend=backend)
        for x in calls:
            x.zero_()
            attempt(name, agreed, x)
            tell(written=float(x.sum()))
        tell(name=name, compiles=case.compiles - before, strides=seen, fallbacks=agreed.agreed.fallbacks)
    def writes(a, b, held):
        a.add_(1)
        held["double"] = held["x"] * 2
        held["x"].add_(1)
        return total(b + held["x"])
    agreed = compiled(writes, name="writes")
    base, x = torch.zeros(2, 6), transposed[RANK % 2].zero_()
    held = {"x": x}
    with torch.inference_mode(RANK == 0):  # which has the copy
        attempt("shared", agreed, base[:, ::2], base[:, ::2], held)
    tell(kept=held["x"] is x, written=float(x.sum()), double=float(held["double"].sum()))

    def steps(w):
        with torch.no_grad():
            w.add_(1)
        return total(w)
    w = transposed[RANK % 2].detach().zero_().requires_grad_()
    attempt("leaf", compiled(steps, name="steps"), w)
    tell(written=float(w.detach().sum()))
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
    for _ in range(2):
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
    tell(compiles=case.compiles, last=agreed.agreed.last.is_new)


@torch.library.custom_op("cases::of_one_rank", mutates_args=())
def of_one_rank(x: torch.Tensor) -> torch.Tensor:
    """Fails on rank 1 where `flag` is 1; where it is 2, issues a collective that is in no graph, another one there."""
    if flag == 1 and RANK == 1:
        raise OSError("on this rank alone")
    out = x.clone()
    if flag == 2:
        dist.all_reduce(out, dist.ReduceOp.MAX if RANK == 1 else dist.ReduceOp.SUM)
    return out


of_one_rank.register_fake(torch.empty_like)


def compiled_issues(watch):
    """Collectives of a graph that ends early on one rank, and collectives in no graph."""
    global flag
    agreed = compiled(lambda x: of_one_rank(functional.all_reduce(x, "sum", dist.group.WORLD)).sum())
    for now in (0, 0, 0, 1, 0, 0, 2, 0):
        flag = now
        attempt(f"flag {now}", agreed, torch.ones(2))


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
        tell(model=name, fallbacks=agreed.agreed.fallbacks, compiles=case.compiles)


def compiled_uniform(watch):
    """Sizes that a collective needs alike, and others that it does not."""
    def step(x, y):
        gathered = functional.all_gather_tensor(x.repeat(2), 0, dist.group.WORLD)
        return total(gathered.sum() + y.sum())
    agreed = compiled(step)
    for rows in ((4, 4), (5, 7), (5, 5), (6, 6), (6, 7), (1, 2), (1, 1), (0, 0), (0, 9), (9, 9)):
        attempt(f"{rows}", agreed, torch.ones(rows[RANK % 2]), torch.ones(3 + RANK + rows[0]))
    tell(compiles=case.compiles)
    reduced = compiled(lambda x: functional.all_reduce(x * 1, "sum", dist.group.WORLD).sum())
    for shapes in (((2, 6), (3, 4)), ((4, 5), (2, 10)), ((2, 6), (3, 5)), ((6, 6), (4, 9))):
        attempt(f"{shapes}", reduced, torch.ones(shapes[RANK % 2]))
    square = compiled(lambda x: functional.all_reduce(x @ x.T, "sum", dist.group.WORLD).sum(), name="square")
    for rows in ((5, 5), (5, 7), (6, 6)):
        attempt(f"square {rows}", square, torch.ones(rows[RANK % 2], 1))

    def untaken(x, p):
        return torch.cond(p.sum() > 0, lambda x: functional.all_reduce(x * 1, "sum", dist.group.WORLD), lambda x: x * 3, (x,)).mean()
    branches = compiled(untaken)
    for rows in ((5, 7), (6, 8)):
        attempt("untaken", branches, torch.ones(rows[RANK % 2]), -torch.ones(1))

    def on_some(x, y):
        rows = 8 if x.shape[0] > 5 else y.shape[0]
        return functional.all_reduce(y[:rows] * 1, "sum", dist.group.WORLD).sum()
    own = compiled(on_some, consistency="same_collectives", dynamic=True)
    for rows in ((7, 4), (8, 3)):
        attempt("on some", own, torch.ones(rows[RANK % 2]), torch.ones(8))


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
    tell(compiles=case.compiles)


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
    apart, case.compiles = case.compiles, 0
    found.clear()
    strided = compiled(total, name="strided")
    attempt("strided", strided, torch.ones(4 + RANK, 6)[:, ::2])
    attempt("strided", strided, torch.ones(5 - RANK, 6)[:, ::2])
    tell(apart=apart, compiles=case.compiles, found=[finding.text for finding in found])


def compiled_module(watch):
    """What programs do with a module, and with functions."""
    import copy
    import inspect
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
    del agreed.alpha
    assert not hasattr(model, "alpha") and len(agreed) == 2 and agreed[1] is model[1] and list(agreed) == list(model)
    assert "_orig_mod.0.weight" in agreed.state_dict() and not isinstance(agreed, torch.nn.Sequential)
    assert sum(isinstance(each, torch.nn.Linear) for each in torch.nn.Sequential(compiled(torch.nn.Linear(2, 2))).modules()) == 1
    agreed.train()
    assert model.training and model[1].training

    class Scaled(torch.nn.Module):
        scale = 2.0

        def forward(self, x, add: float = 1.0):
            return total(x * self.scale) + add
    scaled = compiled(Scaled())
    assert str(inspect.signature(scaled.forward)) == "(x, add: float = 1.0)" and not hasattr(scaled, "__len__")

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sub, self.pair = scaled, agreed

        def forward(self, x):
            return self.sub(x) * self.sub.scale + len(self.pair)
    attempt("outer", torch.compile(Outer(), backend=counting, fullgraph=True), torch.ones(4))
    forward = scaled.forward
    scaled.forward = lambda x: forward(x) * 2
    attempt("forward", scaled, torch.ones(4))

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
    tell(compiles=case.compiles, text=agreed.agreed.last.decision.text)
    fixed = compiled(lambda x: total(x) if x.size(0) == 4 else total(x) * 2, name="fixed")
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    attempt("broken mark", fixed, x)


def compiled_dtypes(watch):
    """Dtypes of torch that lockstep has no names for, beside a strided tensor with a gradient."""
    def step(z, q, w):
        return total(z.real @ w) + q.float().sum()
    agreed = compiled(step)
    for rows in (3, 4 + RANK, 7 - RANK):
        z = torch.ones(rows, 4, dtype=torch.complex64)
        q = torch.ones(rows, 2).to(torch.float8_e4m3fn)
        attempt("step", lambda: agreed(z, q, torch.ones(2, 4).t().requires_grad_()).detach() - q.float().sum())
    tell(compiles=case.compiles, rows=[3, 4 + RANK, 7 - RANK])
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
    tell(compiles=case.compiles)
    limited = compiled(lambda x, n: total(x * limited.agreed.fields["capacity"] * n), name="limited", recompile_limit=1,
                       fields=lambda x, n: {"capacity": (RANK + 2, "max")})
    for n in (True, False, True):  # the second has no version
        attempt(f"limited {n}", limited, torch.ones(4), n)

    def needs(x):
        return total(x * needing.agreed.fields["capacity"] if x.size(0) > 4 else x * 10 * needing.agreed.fields["capacity"])
    needing = compiled(needs, name="needs", fields=lambda x: {"capacity": (RANK + 2, "max")})
    attempt("needs", needing, torch.ones(RANK))
    tell(fallbacks=[limited.agreed.fallbacks, needing.agreed.fallbacks])
    if WATCHED:
        other = compiled(lambda x: total(x), name="other", fields=lambda x: {"rank": (RANK, "equal")})
        attempt("other", other, torch.ones(3))
