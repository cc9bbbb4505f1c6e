"""Programs in which ranks differ as they may, one per case, for torch_legal_test.py: `torch_legal_cases.py CASE` prints what
came out as a line of JSON. WATCH: the policy of lockstep.torch.watch(), "alone" ("error", with what one rank does by itself
in Watch.alone()), "compile" (lockstep.torch.compile() in place of torch's), or empty."""

import collections.abc
import contextlib
import dataclasses
import datetime
import json
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

RANK, SIZE, WATCH = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ.get("WATCH", "")
if WATCH:
    import lockstep.torch
DEADLINE = 6.0
watched = None


def alone():
    return watched.alone() if WATCH == "alone" else contextlib.nullcontext()


def compiled(thing, **options):
    options = {"backend": "aot_eager", **options}
    if WATCH == "compile":
        return lockstep.torch.compile(thing, **{"fullgraph": False, **options})
    return torch.compile(thing, **options)


def total(x):
    return functional.all_reduce(x.sum(), "sum", dist.group.WORLD)


def net(width=8):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))


def reduced(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    return float(sum(parameter.grad.abs().sum() for parameter in model.parameters()))


def evaluation():
    """On rank 0, through the compiled model, while the others wait."""
    model = net()
    step, out = compiled(model), []
    for _ in range(3):
        step(torch.ones(4, 4)).sum().backward()
        out.append(reduced(model))
        if RANK == 0:
            with torch.no_grad(), alone():
                out.append(float(step(torch.ones(7, 4)).mean()))
        dist.barrier()
    return out


def join():
    """Uneven batches."""
    model = DistributedDataParallel(net())
    step, out = compiled(model), []
    with alone(), Join([model]):
        for i in range(3 + 2 * RANK):
            loss = step(torch.full((3 + i, 4), 0.1)).sum()
            loss.backward()
            out.append(float(loss))
    return out


def micro_batches():
    """Another number of them on each rank, all but the last without a reduction."""
    model = DistributedDataParallel(net())
    step, out = compiled(model), []
    for count in (2, 2, 3 - RANK, 1 + 2 * RANK):
        for i in range(count):
            with model.no_sync() if i < count - 1 else contextlib.nullcontext(), alone():
                step(torch.full((3, 4), 0.1 * (i + 1))).sum().backward()
        out.append(float(model.module[0].weight.grad.sum()))
        model.zero_grad()
    return out


def pipeline(schedule):
    """Each rank compiles its own stage."""
    stages = [torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()), torch.nn.Linear(8, 1)]
    torch.manual_seed(RANK)
    for parameter in stages[RANK].parameters():
        torch.nn.init.normal_(parameter)
    with alone():
        stage = PipelineStage(compiled(stages[RANK]), RANK, 2, torch.device("cpu"))
        run, out = schedule(stage, 4, loss_fn=lambda o, t: (o - t).square().sum()), []
        for _ in range(2):
            if RANK == 0:
                run.step(torch.ones(8, 4))
            else:
                losses = []
                run.step(target=torch.zeros(8, 1), losses=losses)
                out += [float(loss) for loss in losses]
    return out + [float(sum(p.grad.abs().sum() for p in stages[RANK].parameters()))]


def gpipe():
    return pipeline(ScheduleGPipe)


def one_forward_one_backward():
    return pipeline(Schedule1F1B)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


def mesh_2d():
    """Data parallel times tensor parallel with sequence parallelism; rows differ between data-parallel ranks."""
    mesh = init_device_mesh("cpu", (SIZE // 2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block())
    for block in model:
        parallelize_module(block, mesh["tp"], {
            "norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1))})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    step, out = compiled(model), []
    for number in range(3):
        torch.manual_seed(7)
        rows = 2 + mesh["dp"].get_local_rank() + number * (mesh["dp"].get_local_rank() + 1)
        loss = step(torch.randn(rows, 4, 8)).square().mean()
        loss.backward()
        out.append(float(loss))
    return out + [float(sum(p.grad.to_local().abs().sum() for p in model.parameters()))]


def stages_in_groups():
    """Stages with collectives in their graphs, each of a group of its own, with other shapes, called another number of times."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
    group, first = mesh["tp"].get_group(), mesh["pp"].get_local_rank() == 0

    def begin(x):
        return functional.all_reduce(x * 2, "sum", group).relu()

    def end(x, weight):
        return functional.all_reduce(x @ weight, "max", group).sum()
    step = compiled(begin if first else end)
    inputs = (lambda n: (torch.ones(2 + n + RANK, 3)[:2 + n],)) if first else (lambda n: (torch.ones(3, 4 + n), torch.ones(4 + n, 2)))
    with alone():
        return [float(step(*inputs(n)).sum()) for n in range(3 if first else 5)]


def sharded_blocks():
    """FSDP2 per block, bf16, checkpointed; each block compiled in place."""
    class Checkpointed(Block):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=False)
    torch.manual_seed(0)
    model = torch.nn.Sequential(Checkpointed(), Block(), Block()).to(torch.bfloat16)
    for block in model:
        block.compile(backend="aot_eager")
        fully_shard(block)
    fully_shard(model)
    out = []
    for number in range(3):
        loss = model(torch.ones(2 + number * (RANK + 1), 3, 8, dtype=torch.bfloat16)).float().square().mean()
        loss.backward()
        out.append(float(loss))
    return out


def other_threads():
    """A thread compiles and runs a frame of its own while the main thread trains."""
    out = {}

    def beside():
        score = compiled(lambda x: (x * 2).relu().sum())
        out["beside"] = [float(score(torch.ones(n + RANK))) for n in range(2, 6)]
    thread = threading.Thread(target=beside)
    thread.start()
    model = net()
    step = compiled(model)
    for rows in (3, 4, 5):
        step(torch.ones(rows + RANK, 4)).sum().backward()
    thread.join()
    return [reduced(model), *out["beside"]]


def whole_steps():
    """A compiled optimizer and loss; a condition in the graph; vmap."""
    model = net()
    adam = torch.optim.Adam(model.parameters(), foreach=True)
    opt = compiled(adam.step, fullgraph=False)
    loss_of = compiled(lambda y: torch.vmap(lambda row: row.square().sum())(y).mean())
    chosen = compiled(lambda x: torch.cond(x.sum() > 3, lambda y: y * 2, lambda y: y - 1, (x,)))
    out = []
    for number in range(3):
        loss = loss_of(model(torch.ones(2 + number * (RANK + 1), 4)))
        loss.backward()
        reduced(model)
        opt()
        adam.zero_grad()
        out += [float(loss), float(chosen(torch.ones(2 + RANK)).sum())]
    return out


def stances():
    """One rank runs eagerly for a while, and one forgets what it has compiled."""
    step, out = compiled(lambda x: x.square().mean()), []
    for number in range(4):
        with torch.compiler.set_stance("force_eager") if RANK == 0 and number == 1 else contextlib.nullcontext(), alone():
            out.append(float(step(torch.full((3 + number,), 2.0))))
        if RANK == 1 and number == 2:
            torch.compiler.reset()
    dist.barrier()
    return out


def without_a_batch():
    """Ranks that have none skip the frame, and reduce zeros."""
    model = net()
    step, out = compiled(model), []
    for number in range(4):
        if (number + RANK) % 2:
            with alone():
                step(torch.ones(2 + number, 4)).sum().backward()
        else:
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        out.append(reduced(model))
        model.zero_grad()
    return out


def inner():
    """Compiled code that calls compiled code; graph breaks; a container and keyword arguments."""
    act = compiled(lambda x: x.relu())

    def step(batch, *, scale=1):
        y = act(batch["x"][0]) * scale
        print("a graph break", file=sys.stderr)
        return total(y)
    run = compiled(step)
    return [float(run({"x": [torch.ones(2 + n + RANK)], "who": None}, scale=2)) for n in range(3)]


def jagged():
    linear = torch.nn.Linear(4, 4)
    torch.nn.init.ones_(linear.weight)
    step, out = compiled(lambda nested: total(linear(nested).relu().values())), []
    for number in range(3):
        lengths = [2 + number + RANK, 3, 1 + RANK * number] + [2] * (RANK if number == 2 else 0)
        torch.nn.init.zeros_(linear.bias)
        nested = torch.nested.nested_tensor([torch.ones(n, 4) for n in lengths], layout=torch.jagged)
        out.append(float(step(nested)))
    return out


def sends_first():
    """A graph that sends to a peer before its collective: nobody waits for that peer at its entry, which comes there only
    with what is sent."""
    torch._dynamo.config.enable_p2p_compilation = True

    def step(x):
        y = x * 2
        sent = dist.isend(y, 1 - RANK)
        out = total(y)
        sent.wait()
        return out
    step, out = compiled(step), []
    for i in range(3):
        got = torch.zeros(3 + i)
        if RANK == 1:
            dist.recv(got, 0)
        out.append(float(step(torch.ones(3 + i) + got)))
        if RANK == 0:
            dist.recv(got, 1)
            out.append(float(got.sum()))
    return out


def roots():
    """A root and the others call from different lines; ranks come to a barrier from different lines."""
    x = torch.full((3,), float(RANK))
    if RANK == 0:
        dist.broadcast(x, 0)
        dist.barrier()
    else:
        dist.broadcast(x, 0)
        dist.barrier()
    return [float(x.sum())]


def deep_queue():
    """Many operations in flight, which take longer in turn than the time-out of one."""
    small = dist.new_group(timeout=datetime.timedelta(seconds=3))
    x = torch.ones(4_000_000)
    works = [dist.all_reduce(x, op=dist.ReduceOp.MAX, group=small, async_op=True) for _ in range(96)]
    for work in works:
        work.wait()
    return [float(x.sum())]


class Rows(torch.utils.data.Dataset):
    """Its rows come through a function that is compiled in the loader's processes."""

    def __len__(self):
        return 8

    def __getitem__(self, at):
        return doubled(torch.full((3,), float(at)))


doubled = torch.compile(lambda x: x * 2, backend="eager")


def loader_workers():
    doubled(torch.ones(2))
    step = compiled(lambda x: x.square().sum())
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    return [float(step(batch)) for batch in loader]


@dataclasses.dataclass
class Half:
    x: torch.Tensor
    later: torch.Tensor = dataclasses.field(init=False)


class Lazy(collections.abc.Mapping):
    def __getitem__(self, key):
        raise OSError("not loaded")

    def __iter__(self):
        return iter("ab")

    def __len__(self):
        return 2


def odd_inputs():
    """What cannot be read is left out."""
    inner = []
    inner.append(inner)
    step = compiled(lambda half, lazy, odd: half.x.sum() * 2)
    return [float(step(Half(torch.ones(2 + RANK)), Lazy(), inner)) for _ in range(2)]


def own_caches():
    """One rank finds in inductor's cache what another has built."""
    loss = compiled(lambda x: (x * x).sin().sum(), backend="inductor")
    if RANK > 0:
        dist.barrier()
    x = torch.ones(4, requires_grad=True)
    loss(x).backward()
    if RANK == 0:
        dist.barrier()
    return [float(x.grad.sum())]


def ends_apart():
    """Rank 0 ends while the others go on for longer than the deadline, without it."""
    step = compiled(lambda x: x.square().sum())
    out = [float(step(torch.ones(3)))]
    dist.barrier()
    for _ in range(0 if RANK == 0 else 90):
        time.sleep(0.1)
        out[0] += float(step(torch.ones(3)))
    return out


def main():
    global watched
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    if WATCH:
        watched = lockstep.torch.watch({"alone": "error", "compile": "recompile"}.get(WATCH, WATCH), deadline=DEADLINE)
    out = globals()[sys.argv[1]]()
    print(json.dumps({"rank": RANK, "out": out}), flush=True)


main()
