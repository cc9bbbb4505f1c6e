"""Programs of a PyTorch user, for torch_lines_test.py: each rank runs `torch_lines_cases.py CASE` and tells what it saw as
lines of JSON."""

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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import lockstep.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)


def tell(**what):
    print(json.dumps({"rank": RANK, **what}), flush=True)


def attempt(label, call):
    began = time.monotonic()
    try:
        seen = {"value": float(call())}
    except Exception as error:
        seen = {"error": type(error).__name__, "text": str(error)}
    tell(call=label, seconds=round(time.monotonic() - began, 2), **seen)


def first(tensor):
    return tensor.flatten()[0] if tensor.numel() else 0.0


# Programs: what rank `odd`, the last one, does is not what the others do.

def issue(op, is_odd, group=None):
    rows = 3 if is_odd else 5
    x = torch.ones(rows)
    if op == "sizes":
        dist.all_reduce(x, group=group)
    elif op == "gather":
        dist.all_gather_into_tensor(torch.empty(rows * SIZE), x, group=group)
    elif op == "scatter":
        out = torch.empty(rows)
        dist.reduce_scatter_tensor(out, torch.ones(rows * SIZE), group=group)
        x = out
    elif op == "functional":
        x = functional.all_reduce(x, "sum", group or dist.group.WORLD) + 0
    elif op == "compiled":
        x = compiled(x)
    elif op == "dtype":
        x = torch.ones(5, dtype=torch.int32 if is_odd else torch.float32)
        dist.all_reduce(x, group=group)
    elif op == "reduction":
        dist.all_reduce(x := torch.ones(5), dist.ReduceOp.MAX if is_odd else dist.ReduceOp.SUM, group=group)
    elif op == "root":
        dist.reduce(x := torch.ones(5), 1 if is_odd else 0, group=group)
    elif op == "other":
        x = torch.ones(5)
        dist.broadcast(x, SIZE - 1) if is_odd else dist.all_reduce(x, group=group)
    elif op == "splits":
        splits = [2] * SIZE
        taken = list(splits)
        if is_odd:
            taken[0] += 1
        x = torch.empty(sum(taken))
        dist.all_to_all_single(x, torch.ones(sum(splits)), taken, splits, group=group)
    return first(x)


class Inner(torch.nn.Module):
    def forward(self, x):
        x = x * 1.0
        return functional.all_reduce(x, "sum", dist.group.WORLD) + 0  # the compiled collective

class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Inner()])

    def forward(self, x):
        return self.layers[0](x)

compiled = torch.compile(Outer(), backend="aot_eager", dynamic=True)


def differs(op):
    def case():
        attempt("alike", lambda: issue(op, False))
        if RANK == SIZE - 1:
            time.sleep(float(os.environ["LATE"]))
        attempt("apart", lambda: issue(op, RANK == SIZE - 1))
        time.sleep(float(os.environ["LATE"]))
        attempt("after", lambda: issue(op, False))
        other = dist.new_group(list(range(SIZE)))
        attempt("new group", lambda: first_of_all_reduce(other))
    return case


def first_of_all_reduce(group):
    x = torch.ones(2)
    dist.all_reduce(x, group=group)
    return first(x)


def start_again():
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = os.environ["NEXT_PORT"]
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))


def restart():
    """A group is dead, and one of a new start has its name and its ranks."""
    attempt("apart", lambda: issue("sizes", RANK == SIZE - 1))
    start_again()
    attempt("again", lambda: first_of_all_reduce(None))


def two_groups():
    a, b = dist.new_group(list(range(SIZE))), dist.new_group(list(range(SIZE)))
    for group in (a, b):
        first_of_all_reduce(group)
    order = (b, a) if RANK == SIZE - 1 else (a, b)
    attempt("apart", lambda: sum(first_of_all_reduce(group) for group in order))
    attempt("world", lambda: first_of_all_reduce(None))


def receives():
    x = torch.ones(4 if RANK == 0 else 3)
    if RANK == 0:
        attempt("sent", lambda: dist.send(x, 1) or 0.0)
    elif RANK == 1:
        attempt("received", lambda: dist.recv(x, 0) or 0.0)


def from_any():
    """Every other rank sends twice to rank 0, which takes from any; the last one sends what does not fit, second."""
    if RANK > 0:
        for step in (0, 1):
            dist.send(torch.ones(4, dtype=torch.int32 if step == 1 and RANK == SIZE - 1 else torch.float32), 0, tag=5)
        return
    for take in range(2 * (SIZE - 1)):
        attempt(f"take {take}", lambda: dist.recv(torch.zeros(4), tag=5))


def layers():
    """A collective in a layer's own forward pass, and one in a hook of torch's own before another one's."""
    class Layer(torch.nn.Module):
        def forward(self, x):
            dist.all_reduce(x := x * 1.0)
            return x

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(5, 5), Layer(), Layer()])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    model = Model()
    attempt("alike", lambda: first(model(torch.ones(5, 5))))
    attempt("apart", lambda: first(model(torch.ones(3 if RANK == SIZE - 1 else 5, 5))))


def sharded():
    mesh = init_device_mesh("cpu", (SIZE // 2, 2), mesh_dim_names=("dp", "tp"))
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2 + SIZE * (RANK == SIZE - 1)))
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh["dp"])
    attempt("apart", lambda: first(model(torch.ones(1, 4))).detach())


def fewer():
    if RANK == SIZE - 1:
        return
    attempt("apart", lambda: first_of_all_reduce(None))


def hook():
    net = torch.nn.Linear(4, 1)

    def reduce(parameter):
        if RANK == 0:
            raise ValueError("nan in the gradient of rank 0")
        dist.all_reduce(parameter.grad)
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    began = time.monotonic()
    try:
        net(torch.ones(3, 4)).sum().backward()
    except Exception as error:
        tell(call="step", error=type(error).__name__, text=str(error), seconds=round(time.monotonic() - began, 2))
        raise


def reducer(does):
    """DDP waits in C++ for its buckets. `does`: what the last rank does in place of its backward pass."""
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 3))
    for _ in range(2):
        net(torch.ones(2, 4)).sum().backward()
    loss = net(torch.ones(2, 4)).sum()

    def step():
        if RANK == SIZE - 1:
            does()
        else:
            loss.backward()
        return 0.0
    began = time.monotonic()
    try:
        step()
    except Exception as error:
        tell(call="step", error=type(error).__name__, text=str(error), seconds=round(time.monotonic() - began, 2))
        raise


def ddp_raises():
    def does():
        raise ValueError("no gradient on this rank")
    reducer(does)


def ddp_differs():
    reducer(lambda: first_of_all_reduce(None))


def future():
    def wait():
        x = torch.ones(3 if RANK == SIZE - 1 else 5)
        dist.all_reduce(x, async_op=True).get_future().wait()
        return first(x)
    attempt("alike", lambda: dist.all_reduce(x := torch.ones(2), async_op=True).get_future().wait()[0][0])
    attempt("apart", wait)


def making():
    """The last rank makes no group."""
    everybody = list(range(SIZE))
    dist.new_group(everybody)
    attempt("apart", lambda: first_of_all_reduce(None) if RANK == SIZE - 1 else dist.new_group(everybody) and 0.0)


def making_other():
    attempt("apart", lambda: dist.new_group([0] if RANK == SIZE - 1 else [0, 1]) and 0.0)


def making_locally():
    """Groups that their ranks alone make: alike they are made; the last rank has made one more, so that torch would name the next
    otherwise there."""
    everybody = list(range(SIZE))
    alike = dist.new_group(everybody, use_local_synchronization=True)
    attempt("alike", lambda: first_of_all_reduce(alike))
    if RANK == SIZE - 1:
        dist.new_group([RANK], use_local_synchronization=True)
    attempt("apart", lambda: first_of_all_reduce(dist.new_group(everybody, use_local_synchronization=True)))


def sends_first():
    """Neighbours swap, even ranks sending first; then rank 1 reduces before it swaps, while rank 0 waits in its send."""
    def swap(rank, other):
        x = torch.ones(3)
        for sends in (rank < other, rank > other):
            dist.send(x, other) if sends else dist.recv(x, other)
        return first(x)
    if RANK > 1:
        return attempt("apart", lambda: first_of_all_reduce(None))
    attempt("alike", lambda: swap(RANK, 1 - RANK))
    attempt("apart", lambda: [first_of_all_reduce(None), swap(1, 0)][0] if RANK == 1 else [swap(0, 1), first_of_all_reduce(None)][1])


def sends_to_any():
    """Rank 0 waits in its second send to the last one, which waits for it in a reduction: a thread that nobody knows of takes it
    there from any source, later."""
    last = SIZE - 1
    if RANK != last:
        if RANK == 0:
            attempt("sent", lambda: [float(dist.send(torch.ones(3), last, tag=7) is None) for _ in range(2)][1])
        return attempt("reduced", lambda: first_of_all_reduce(None))

    def take(seconds):
        time.sleep(seconds)
        dist.recv(torch.empty(3), tag=7)
    threads = [threading.Thread(target=take, args=(seconds,)) for seconds in (0, 1.5)]
    threads[0].start(), threads[0].join(), threads[1].start()
    attempt("reduced", lambda: first_of_all_reduce(None))
    threads[1].join()


def wrapped():
    """What is refused is raised in other words, as torch does in a hook of DDP's."""
    try:
        issue("sizes", RANK == SIZE - 1)
    except lockstep.Error as error:
        raise RuntimeError(f"in a hook: {error}") from None


def wrapped_within():
    """The same, and the watch ends before the program does."""
    with watched:
        wrapped()


def stopped():
    """The last rank is stopped; the others wait for it in a group of their own, and for each other."""
    group, processes = dist.new_group(list(range(SIZE))), [None] * SIZE
    dist.all_gather_object(processes, os.getpid())
    first_of_all_reduce(group)
    if RANK == SIZE - 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    attempt("stopped", lambda: first_of_all_reduce(group))
    if RANK == 0:
        os.kill(processes[-1], signal.SIGKILL)


def slow():
    """The last rank works for longer than the deadline, and the others wait for it and for each other."""
    group, pair = dist.new_group(list(range(SIZE))), dist.new_group([0, SIZE - 1])
    first_of_all_reduce(group)
    if RANK == SIZE - 1:
        for _ in range(50):
            time.sleep(0.1)
        watched.group.busy(8)
        time.sleep(7)  # in one call
    if RANK in (0, SIZE - 1):
        first_of_all_reduce(pair)
    attempt("slow", lambda: first_of_all_reduce(group))


def healthy():
    """Many groups, threads, sends, DDP, FSDP2, DTensor, a second start; other shapes of as many elements, ranks that do nothing."""
    total = 0.0
    pairs = [dist.new_group([i, (i + 1) % SIZE]) for i in range(SIZE)] if SIZE > 2 else []
    world = dist.group.WORLD
    for step in range(30):
        x = torch.ones(2, 6) if RANK % 2 else torch.ones(12)
        dist.all_reduce(x)
        total += float(first(x))
        for i, pair in enumerate(pairs):
            if RANK in (i, (i + 1) % SIZE):
                y = torch.ones(step + 1)
                dist.all_reduce(y, group=pair)
                total += float(first(y))
        works = [dist.all_reduce(torch.ones(step + 1), async_op=True) for _ in range(4)]
        del works[1]
        for work in works:
            work.wait()
        z = functional.all_reduce(torch.ones(3), "sum", world)
        total += float(z[0])
        if RANK == 0:
            dist.isend(torch.ones(step + 1), 1, tag=step).wait()
        elif RANK == 1:
            w = torch.zeros(step + 1)
            dist.irecv(w, 0, tag=step).wait()
            total += float(w.sum())
        told = [None] * SIZE
        dist.all_gather_object(told, "x" * (RANK + 1 + step))
        total += sum(map(len, told))
        splits = [1 + (RANK + p) % 3 for p in range(SIZE)]
        v = torch.empty(sum(splits))
        dist.all_to_all_single(v, torch.ones(sum(splits)), splits, splits)
        dist.barrier()
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 3))
    for step in range(5):
        net(torch.ones(2 + RANK, 4)).sum().backward()
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    mesh = init_device_mesh("cpu", (SIZE,))
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    for step in range(3):
        model(torch.ones(1 + RANK, 4)).sum().backward()
    total += float(distribute_tensor(torch.arange(12.0), mesh, [Shard(0)]).redistribute(mesh, [Replicate()]).to_local().sum())
    # Whose send comes first is known to none.
    if RANK == 0:
        dist.send(torch.ones(3), 1, tag=100)
        dist.send(torch.ones(5), 1, tag=100)
    elif RANK == 1:
        for rows in (3, 5):
            dist.recv(w := torch.zeros(rows), None if rows == 3 else 0, tag=100)
            total += float(w.sum())
    side = dist.new_group(list(range(SIZE)))
    thread = threading.Thread(target=lambda: [first_of_all_reduce(side) for _ in range(50)])
    thread.start()
    for _ in range(50):
        first_of_all_reduce(None)
    thread.join()
    start_again()  # the names of groups come again, for others
    pair = dist.new_group([0, 1] if RANK % 2 else [1, 0])  # which torch sorts
    for rows in (2, 3):
        dist.all_reduce(torch.ones(rows))
        if RANK < 2:
            dist.all_reduce(torch.ones(rows + 4), group=pair)
    tell(call="total", value=total)


def passed():
    """Its last operation."""
    issue("reduction", False)
    attempt("apart", lambda: issue("reduction", RANK == SIZE - 1))


CASES = {**{op: differs(op) for op in ("sizes", "gather", "scatter", "functional", "compiled", "dtype", "reduction", "root",
                                       "other", "splits")},
         **{case.__name__: case for case in (restart, two_groups, receives, from_any, layers, sharded, fewer, hook, ddp_raises,
                                             ddp_differs, future, making, making_other, making_locally, sends_first,
                                             sends_to_any, wrapped, wrapped_within, stopped, slow, passed, healthy)}}


def program():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4 if os.environ["KERNELS"] else 25))
    if os.environ["WATCHED"] == "1":
        if os.environ["KERNELS"] == "python":
            lockstep.torch.lines.load_part = lambda: None
        elif lockstep.torch.lines.load_part() is None:
            sys.exit("lockstep.torch has no part for this torch; run scripts/torch-lines")
        global watched
        watched = lockstep.torch.watch(deadline=3 if sys.argv[1] in ("stopped", "slow") else 20)
    CASES[sys.argv[1]]()


program()
