"""Collectives of every process group, compared when they are issued: programs of a PyTorch user on 2, 3 and 4 processes, each
rank of which runs `torch_lines_test.py CASE` and tells what it saw as lines of JSON.

    PYTHONPATH=build/release/lib python tests/worker/python/torch_lines_test.py [CASE...]

Needs what scripts/torch-lines builds."""

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

LIMIT = 90  # seconds a case may take
#: What a rank that others have to hear of may take: proof is 0.3 s, a look every 20 ms; a busy machine.
SOON = 3.0

if "RANK" in os.environ:
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


if "RANK" in os.environ:
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
         "restart": restart, "two_groups": two_groups, "receives": receives, "from_any": from_any, "layers": layers, "sharded": sharded, "fewer": fewer, "hook": hook, "ddp_raises": ddp_raises, "ddp_differs": ddp_differs, "future": future, "making": making, "making_other": making_other,
         "stopped": stopped, "slow": slow, "passed": passed, "healthy": healthy}


# Their driver.

class Run:
    def __init__(self, case, size, watched=True, kernels="", debug="OFF", apart=(), late=0.0):
        with socket.socket() as first, socket.socket() as second:
            for probe in (first, second):
                probe.bind(("127.0.0.1", 0))
            port, next_port = first.getsockname()[1], second.getsockname()[1]
        self.size = size
        processes = [subprocess.Popen(
            [*apart, sys.executable, __file__, case], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, TORCH_DISTRIBUTED_DEBUG=debug, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NEXT_PORT=str(next_port), RANK=str(rank), WORLD_SIZE=str(size),
                     OMP_NUM_THREADS="1", WATCHED=str(int(watched)), KERNELS=kernels, LATE=str(late), LOCKSTEP_COORDINATOR="off"))
            for rank in range(size)]
        until = time.monotonic() + (LIMIT if watched else LIMIT / 2)
        self.lines, self.codes, self.errors = [], [], []
        for process in processes:
            try:
                out, errors = process.communicate(timeout=max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                for each in processes:
                    each.send_signal(signal.SIGKILL)
                out, errors = process.communicate()
            self.lines += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            self.codes.append(process.returncode)
            self.errors.append(errors[-1500:])

    def of(self, call):
        """By rank."""
        return {line["rank"]: line for line in self.lines if line["call"] == call}

    def fail(self, why):
        raise AssertionError("\n".join([why, *map(str, self.lines), f"codes {self.codes}", *self.errors]))

    def all_raise(self, call, error, *texts):
        seen = self.of(call)
        if len(seen) != self.size:
            self.fail(f"{call}: not of all ranks")
        for line in seen.values():
            if line.get("error") != error or any(text not in line["text"] for text in texts) or line["seconds"] > SOON:
                self.fail(f"{call}: wanted {error} with {texts} within {SOON} s")
        if len({line["text"] for line in seen.values()}) != 1:
            self.fail(f"{call}: the ranks say different things")


def compiled_line():
    with open(__file__) as text:
        return next(number for number, line in enumerate(text, 1) if line.endswith("# the compiled collective\n"))


def check_differs(op, size):
    run = Run(op, size)
    sides = {"sizes": ("all_reduce sum f32[5]", "all_reduce sum f32[3]"), "dtype": ("f32[5]", "i32[5]"),
             "reduction": ("all_reduce sum", "all_reduce max"), "root": ("reduce sum f32[5] root 0", "root 1"),
             "other": ("all_reduce sum f32[5]", "broadcast f32[5]"),
             "compiled": [f"all_reduce sum f32[{rows}] at torch_lines_test.py:{compiled_line()} (layers.0)" for rows in (5, 3)],
             "splits": ("takes 3", "sends 2")}.get(op, ("[5", "[3") if op != "scatter" else ("reduce_scatter_tensor",))
    passes = {"root"} if op == "root" else set()
    if passes:  # who is no root need not wait: it hears of it at its next operation
        if not any(line.get("error") == "GraphDivergence" for line in run.of("apart").values()):
            run.fail("nobody refused")
    else:
        run.all_raise("apart", "GraphDivergence", "operation 2 of the group of ranks 0-", "torch_lines_test.py:", *sides)
    run.all_raise("after", "GraphDivergence")
    if any(line.get("value") != float(size) for line in run.of("new group").values()) or run.codes != [0] * size:
        run.fail("a new group works")


def check_restart(size):
    run = Run("restart", size)
    run.all_raise("apart", "GraphDivergence")
    if [line.get("value") for line in run.of("again").values()] != [float(size)] * size:
        run.fail("the group of the new start lives")


def check_two_groups(size):
    run = Run("two_groups", size)
    run.all_raise("apart", "Stuck", "ranks wait for each other", "number 2 of these", "number 3 of these", "operation 2")
    if any(line.get("value") != float(size) for line in run.of("world").values()):
        run.fail("other groups go on")


def check_receives(size):
    run = Run("receives", size)
    line = run.of("received")[1]
    if line.get("error") != "GraphDivergence" or "send f32[4]" not in line["text"] or "receive f32[3]" not in line["text"]:
        run.fail("the receiver refuses")


def check_from_any(size):
    run = Run("from_any", size)
    refused = [line for line in run.lines if line.get("error") == "GraphDivergence"]
    values = [line for line in run.lines if "value" in line]
    if len(refused) != 1 or len(values) + 1 != 2 * (size - 1) or f"the sends from rank {size - 1} to rank 0 with tag 5" not in refused[0]["text"] or any(
            text not in refused[0]["text"] for text in ("operation 2 of", "send i32[4]", "receive f32[4]")):
        run.fail("what does not fit is told when it has come")


def check_layers(size):
    Run("layers", size).all_raise("apart", "GraphDivergence", "operation 3 of", "all_reduce sum f32[5, 5] at torch_lines_test.py",
                                  "(layers.1)", "f32[3, 5]")


def check_sharded(size):
    """The last rank's group, of two ranks, is named by its dim, and the layer in whose hook the collective is."""
    run = Run("sharded", size)
    for rank, line in run.of("apart").items():
        is_apart = rank % 2 == (size - 1) % 2
        if is_apart != (line.get("error") == "GraphDivergence") or is_apart and any(
                text not in line["text"] for text in ("the group dp (ranks 1,3)", "(1)", "torch_lines_test.py")):
            run.fail("the group and the layer are named")


def check_fewer(size):
    run = Run("fewer", size)
    for rank in range(size - 1):
        line = run.of("apart").get(rank, {})
        if line.get("error") not in ("Stuck", "Gone", "FrameMismatch") or line["seconds"] > SOON:
            run.fail("who waits hears that the other has ended")


def check_hook(size):
    run = Run("hook", size)
    for rank in range(1, size):
        line = run.of("step").get(rank, {})
        if line.get("error") != "Gone" or "ValueError: nan in the gradient of rank 0" not in line["text"] or line["seconds"] > SOON:
            run.fail("who waits hears of the exception")
    if 0 in run.codes:
        run.fail("all ranks end with an error")


def check_ddp_raises(size):
    run = Run("ddp_raises", size)
    for rank in range(size - 1):
        line = run.of("step").get(rank, {})
        if line.get("error") != "Gone" or "no gradient on this rank" not in line["text"] or line["seconds"] > SOON:
            run.fail("the reducer's wait ends")
    if 0 in run.codes:
        run.fail("all ranks end with an error")


def check_ddp_differs(size):
    run = Run("ddp_differs", size)
    run.all_raise("step", "GraphDivergence", "all_reduce sum f32[15]", "all_reduce sum f32[2]")


def check_future(size):
    run = Run("future", size)
    run.all_raise("apart", "GraphDivergence", "all_reduce sum f32[5]", "all_reduce sum f32[3]")
    if any(line.get("value") != float(size) for line in run.of("alike").values()):
        run.fail("a future gives its value")


def check_making(size):
    run = Run("making", size)
    line = run.of("apart").get(size - 1, {})
    if line.get("error") != "Stuck" or f"new_group of ranks 0-{size - 1} at torch_lines_test.py" not in line["text"] or line["seconds"] > SOON:
        run.fail("who waits for one that makes a group is freed")
    if run.codes[:-1] != [4] * (size - 1) or any("lockstep: STUCK" not in errors for errors in run.errors[:-1]):
        run.fail("who makes the group alone ends with the report")


def check_making_other(size):
    run = Run("making_other", size)
    refused = [line["text"] for line in run.of("apart").values() if line.get("error") == "GraphDivergence"] + [
        errors for errors in run.errors if "lockstep: GRAPH_DIVERGENCE" in errors]
    if not refused or any("new_group of rank 0 at torch_lines_test" not in text or "new_group of ranks 0-1 at torch_lines_test" not in text
                          for text in refused):
        run.fail("both sides are told")


def check_stopped(size):
    run = Run("stopped", size)
    for rank in range(size - 1):
        line = run.of("stopped").get(rank, {})
        if line.get("error") != "Stuck" or f"rank {size - 1} does not move on" not in line["text"] or not 2.9 < line["seconds"] < 9:
            run.fail("a stopped rank is named after the deadline")


def check_slow(size):
    run = Run("slow", size)
    if [line.get("value") for line in run.of("slow").values()] != [float(size)] * size or run.codes != [0] * size:
        run.fail("a rank that works is waited for")


def check_healthy(size):
    totals = {watched: {rank: line["value"] for rank, line in Run("healthy", size, watched).of("total").items()}
              for watched in (True, False)}
    if totals[True] != totals[False] or len(totals[True]) != size:
        raise AssertionError(f"a healthy program is not disturbed: {totals}")


def check_python(size):
    """Kernels in Python, as for a torch without a part: nobody gets a number of unequal sizes, and who refuses says so."""
    for op in ("sizes", "gather", "functional", "splits", "other", "root"):
        run = Run(op, size, kernels="python")
        apart = run.of("apart").values()
        refused = [line for line in apart if line.get("error") == "GraphDivergence"]
        if not refused or any("torch_lines_test.py:" not in line["text"] for line in refused) or (
                op != "root" and any("value" in line for line in apart)):
            run.fail(f"{op}: at least one refuses")
    healthy = [Run("healthy", size, True, kernels="python"), Run("healthy", size, False)]
    totals = [{rank: line["value"] for rank, line in run.of("total").items()} for run in healthy]
    if totals[0] != totals[1] or len(totals[0]) != size:
        raise AssertionError(f"a healthy program is not disturbed: {totals} {healthy[0].errors}")


#: Ranks that cannot open each other's memory, as in containers: each is a host of its own.
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def check_hosts(size):
    """Between hosts: what differs is refused at once or after a lag, and who waits is freed as on one host."""
    if subprocess.run([*CONTAINER, "true"], capture_output=True).returncode != 0:
        print("hosts: SKIPPED ALOUD: unshare may not make a namespace of processes")
        return
    for op in ("sizes", "gather", "functional", "splits", "other"):
        run = Run(op, size, apart=CONTAINER, late=0.2)
        run.all_raise("apart", "GraphDivergence", "operation 2 of the group of ranks 0-", "torch_lines_test.py:")
        run.all_raise("after", "GraphDivergence")
        if any(line.get("value") != float(size) for line in run.of("new group").values()) or run.codes != [0] * size:
            run.fail(f"{op}: a new group works")
    run = Run("passed", size, apart=CONTAINER)  # within the lag gloo gives a number
    if any("value" not in line for line in run.of("apart").values()) or run.codes != [3] * size or any(
            text not in errors for errors in run.errors for text in ("lockstep: GRAPH_DIVERGENCE", "reduce sum", "reduce max")):
        run.fail("who has gone past ends with the error")
    run = Run("two_groups", size, apart=CONTAINER)
    run.all_raise("apart", "Stuck", "ranks wait for each other", "number 2 of these", "number 3 of these", "operation 2")
    run = Run("hook", size, apart=CONTAINER)
    line = run.of("step").get(1, {})
    if line.get("error") != "Gone" or "ValueError: nan in the gradient of rank 0" not in line["text"] or line["seconds"] > SOON:
        run.fail("who waits hears of the exception")
    run = Run("ddp_raises", size, apart=CONTAINER)
    line = run.of("step").get(0, {})
    if line.get("error") != "Gone" or "no gradient on this rank" not in line["text"] or line["seconds"] > SOON:
        run.fail("the reducer's wait ends")
    healthy = [Run("healthy", size, True, apart=CONTAINER), Run("healthy", size, False)]
    totals = [{rank: line["value"] for rank, line in run.of("total").items()} for run in healthy]
    if totals[0] != totals[1] or len(totals[0]) != size or healthy[0].codes != [0] * size:
        raise AssertionError(f"a healthy program is not disturbed: {totals} {healthy[0].errors}")


def check_detail(size):
    """Beside torch's own check, which waits for all members before it issues."""
    Run("sizes", size, debug="DETAIL").all_raise("apart", "GraphDivergence", "all_reduce sum f32[5]", "all_reduce sum f32[3]")
    run = Run("two_groups", size, debug="DETAIL")
    run.all_raise("apart", "Stuck", "ranks wait for each other")
    if any(line.get("value") != float(size) for line in run.of("world").values()):
        run.fail("other groups go on")
    line = Run("hook", size, debug="DETAIL").of("step").get(1, {})
    if line.get("error") != "Gone" or line["seconds"] > SOON:
        run.fail("who waits hears of the exception")


def check_bare(size):
    """Without, rank 0 gets a number, so that the cases bite."""
    run = Run("sizes", size, watched=False)
    first = run.of("apart")[0]
    if any("GraphDivergence" == line.get("error") for line in run.lines) or 0 in run.codes or (
            "value" not in first and "closed" not in first["text"] and "reset" not in first["text"]):
        run.fail("rank 0 gets a number, or hears that the others are gone, and they are aborted")


def main():
    chosen = sys.argv[1:]
    failed = 0
    for name, size in [*((op, size) for size in (2, 3) for op in CASES if op not in ("passed", "sharded")), ("two_groups", 4), ("healthy", 4), ("sizes", 4), ("sharded", 4), ("bare", 2), ("detail", 2), ("detail", 3), ("hosts", 2), ("hosts", 3), ("python", 2), ("python", 3)]:
        if chosen and name not in chosen:
            continue
        check = globals().get(f"check_{name}") or (lambda size, op=name: check_differs(op, size))
        began = time.monotonic()
        try:
            check(size)
            print(f"{name}.n{size}: passed, {time.monotonic() - began:.1f} s", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"{name}.n{size}: FAILED: {error}", flush=True)
    sys.exit(1 if failed else 0)


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


if __name__ == "__main__":
    program() if "RANK" in os.environ else main()
