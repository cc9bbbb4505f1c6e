"""Programs of a PyTorch user, one per case, for torch_test.py: each rank runs `torch_cases.py CASE`, tells what it
saw as lines of JSON, and is watched unless LOCKSTEP_COORDINATION=off. Here those under watch() alone."""

import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._dynamo.utils import counters

import lockstep.torch
import torch_case as case
import torch_compile_cases
import torch_training_cases
from torch_case import DEADLINE, RANK, WATCHED, attempt, counting, tell, total

flag = 0


def branch(watch):
    def step(x):
        if x.size(0) > 3:
            x = functional.all_reduce(x, "max", dist.group.WORLD)
        return total(x)
    compiled = torch.compile(step, backend=counting)
    if attempt("apart", compiled, torch.ones(3 if RANK == 0 else 4, 4)) or WATCHED:
        attempt("together", compiled, torch.ones(4, 4))


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
    tell(compiles=case.compiles)


def sizes_of_peers(watch):
    """Rank 0 has another number of columns than rank 1, whose rows vary first and columns later."""
    compiled = torch.compile(lambda x: x.sum() * 3, backend=counting)
    if RANK == 0:
        compiled(torch.ones(2, 7))
    dist.barrier()
    for shape in ((2, 2), (3, 2), (3, 5)):
        if RANK == 1:
            attempt("step", compiled, torch.ones(shape))
    tell(compiles=case.compiles)


def decided_from_tales(watch):
    """Two layers of other widths; rank 0 has compiled both for other numbers of rows before rank 1 compiles them."""
    make = lockstep.torch.compile if WATCHED else torch.compile
    layers = [(make(torch.nn.Linear(width, 2), backend=counting), width) for width in (3, 5)]

    def run(rows):
        for layer, width in layers:
            layer(torch.ones(rows, width))
    if RANK == 0:
        run(7)
    dist.barrier()
    if RANK == 1:
        run(2)
        run(4)
    tell(compiles=case.compiles)


def time_outs(watch):
    """Rank 1 comes to none of the operations of groups with a time-out of 2 s."""
    x = torch.ones(4)
    groups = [dist.new_group(timeout=datetime.timedelta(seconds=2)) for _ in range(5)]
    calls = {"all_reduce": lambda g: dist.all_reduce(x, group=g), "reduce": lambda g: dist.reduce(x, 0, group=g),
             "barrier": lambda g: dist.barrier(group=g),
             "future": lambda g: dist.all_reduce(x, group=g, async_op=True).get_future().wait(),
             "monitored_barrier": lambda g: dist.monitored_barrier(group=g, timeout=datetime.timedelta(seconds=2))}
    for (name, call), group in zip(calls.items(), groups):
        if RANK == 0:
            attempt(name, lambda: call(group) or 0)
        else:
            for _ in range(30):
                time.sleep(0.1)


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
    tell(told=watch.summary())


def encounter(watch):
    """Rank 0 meets a frame for the first time while the others find it in their caches."""
    compiled = torch.compile(lambda x: x.sum() * 2, backend=counting)
    watch.close()
    if RANK > 0:
        compiled(torch.ones(3))
    for policy in ("recompile", "audit", "error"):
        before, found = case.compiles, []
        with lockstep.torch.watch(policy, deadline=DEADLINE, report=lambda f: found.append(f.text)):
            attempt(policy, compiled, torch.ones(3))
        tell(policy=policy, compiles=case.compiles - before, found=found)
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


def compiled_jagged(watch):
    jagged(watch, lockstep.torch.compile)


def jagged(watch, make=torch.compile):
    """Nested tensors whose lengths differ between ranks; the last call has another number of rows, too."""
    compiled = make(lambda x: functional.all_reduce((x * 2).values().sum(), "sum", dist.group.WORLD), backend=counting)
    for number in range(3):
        lengths = [2 + number + RANK, 3] + [2] * (RANK if number == 2 else 0)
        compiled_on = torch.nested.nested_tensor([torch.ones(n, 4) for n in lengths], layout=torch.jagged)
        attempt(f"call {number}", compiled, compiled_on)
    tell(compiles=case.compiles)


def names(watch):
    """Two functions of one name."""
    def made(factor):
        return lambda x: functional.all_reduce((x * factor).sum(), "sum", dist.group.WORLD)
    both = [torch.compile(made(torch.tensor(float(factor))), backend=counting) for factor in (1, 100)]
    for one in both:
        attempt("alike", one, torch.ones(1))
    attempt("apart", both[RANK > 0], torch.ones(1))

    class Hooked(torch.nn.Module):
        def forward(self, x):
            return total(x)
    hooked = Hooked()
    hooked.register_forward_hook(lambda *_: None)
    hooked.compile(backend=counting)
    attempt("hooked", hooked if RANK else both[0], torch.ones(1))
    inner = Hooked()
    inner.register_forward_pre_hook(lambda *_: None)
    inner.forward = torch.compile(inner.forward, backend=counting)
    outer = torch.nn.Sequential(inner)
    attempt("within", outer if RANK else both[0], torch.ones(1))


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


def within_except(watch):
    """Ranks are in different frames, while each handles an exception."""
    def other(x):
        return total(x * 2)
    calls = torch.compile(total, backend=counting), torch.compile(other, backend=counting)
    for call in calls:
        call(torch.ones(4))
    for label, x in (("apart", torch.ones(4)), ("new", torch.ones(4, dtype=torch.float64))):
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            attempt(label, calls[RANK], x)
    attempt("together", calls[0], torch.ones(4))


def waits(watch):
    """Rank 0 works for longer than the deadline, in a loop of one call."""
    compiled = torch.compile(total, backend=counting)
    attempt("together", compiled, torch.ones(3))
    if RANK == 0:
        for _ in range(int(DEADLINE * 20)):
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
    tell(compiles=case.compiles)


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
    """Collectives that would pair and must not."""
    compiled = torch.compile(total, backend=counting)
    x = torch.ones(3)
    attempt("frame", compiled, x)
    dist.all_reduce(x if RANK == 0 else torch.ones(1, 3))  # as many elements
    operation = dist.ReduceOp.MAX if RANK == 0 else dist.ReduceOp.SUM
    attempt("apart", lambda: dist.all_reduce(x, op=operation) or x.sum())
    attempt("after", compiled, x)


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
         issued=watch.issued if WATCHED else None)


# lockstep.torch.compile() in place of torch.compile.


def main() -> None:
    name, *arguments = sys.argv[1].split(":")
    cases = {**vars(torch_compile_cases), **vars(torch_training_cases), **globals()}
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=9))
    watch = lockstep.torch.watch(os.environ.get("POLICY", "recompile"), deadline=DEADLINE)
    cases[name](watch, *arguments)
    watch.close()
    tell(end=True)
    os._exit(0)  # gloo may wait in its own end for what went wrong before


main()
