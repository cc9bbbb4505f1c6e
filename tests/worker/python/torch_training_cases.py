"""Programs that train: backward passes, wrapped models, torch's own multi-rank tests, caches."""

import datetime
import functools
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._dynamo.utils import counters

import lockstep.torch
import torch_case as case
from torch_case import DEADLINE, RANK, SIZE, WATCHED, attempt, compiled, counting, tell, total

flag = 0


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
    name = {"name": f"upstream {number}", "group": dist.group.WORLD}
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
    wanted = [float(step(*(i if isinstance(i, tuple) else (i,))).sum()) for i in calls]
    tell(compiles=case.compiles if via == "compile" else watch.compiles, wanted=wanted)


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
    make = torch.compile if via == "watch" else functools.partial(lockstep.torch.compile, group=dist.group.WORLD)
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
        _wave, backend="aot_eager_decomp_partition", consistency=via, group=dist.group.WORLD)
    torch.manual_seed(0)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    plain = x.clone().requires_grad_()
    _wave(plain, w).backward()
    attempt("step", lambda: (gradient(x, w) - plain.grad.sum()).abs() < 1e-5)
    tell(found=watch.summary())


def upstream_11(watch):
    """Rank 0 compiles for longer than the time-out of the others' collectives, and has all of it afterwards."""
    limit = dist.distributed_c10d._set_pg_timeout
    compiled = torch.compile(total, backend=slow_backend)
    limit(datetime.timedelta(seconds=3), dist.group.WORLD)
    attempt("step", compiled, torch.ones(4))
    tell(compiles=case.compiles)


def slow_backend(graph, inputs):
    time.sleep(6 if RANK == 0 else 0)
    run = counting(graph, inputs)

    def later(*values):
        time.sleep(1 if RANK == 0 else 0)
        return run(*values)
    return later


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
    agreed = lockstep.torch.compile(model, group=dist.group.WORLD)
    rows = 3 + RANK if run != "alike" else 3
    attempt("step", lambda x: agreed(x).mean(), torch.ones(2, rows, 8))
    for p in model.parameters():
        p.grad = None
    agreed(torch.ones(2, rows, 8)).mean().backward()
    tell(gradient=float(model[0].weight.grad.sum()), builds=counters["inductor"]["fxgraph_cache_miss"],
         finds=counters["inductor"]["fxgraph_cache_hit"], plain=float(model(torch.ones(2, 3, 8)).mean()),
         last=agreed.agreed.last.decision.text)
