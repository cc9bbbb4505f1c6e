"""What a compiled call of PyTorch costs with lockstep, against torch's guards alone and against torch's own
guard collectives, interleaved in one process per rank. Microseconds of a call, median and the middle
four fifths, of rank 0; and the ratio of what is added.

    PYTHONPATH=build/release/lib torchrun --nproc-per-node N tests/bench/python_torch.py
"""

import json
import os
import statistics
import time

import torch
import torch.distributed as dist

import lockstep.torch

ROUNDS = 15


def once(function, calls):
    """Microseconds of a call, and of its processor time."""
    start, busy = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(calls):
        function()
    return ((time.perf_counter_ns() - start) / calls / 1000, (time.process_time_ns() - busy) / calls / 1000)


def told(times):
    times = sorted(times)
    cut = max(len(times) // 10, 1)
    return [round(x, 2) for x in (statistics.median(times), times[cut], times[-1 - cut])]


def add_all(xs):
    """Guards on 32 inputs, and little work."""
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    xs = [torch.ones(3, 4) for i in range(32)]
    plain = torch.compile(add_all, backend="eager")
    row = torch.ones(4)
    times = {name: [] for name in ("guards", "watch", "compile", "compile, together", "guard collectives", "all_reduce",
                                   "all_reduce, watched")}
    plain(xs)
    calls = 300 if ranks == 1 else 100
    for _ in range(ROUNDS):
        times["guards"].append(once(lambda: plain(xs), calls))
        times["all_reduce"].append(once(lambda: dist.all_reduce(row), calls))
        with lockstep.torch.watch(deadline=60):
            times["watch"].append(once(lambda: plain(xs), calls))
            times["all_reduce, watched"].append(once(lambda: dist.all_reduce(row), calls))
            apart = lockstep.torch.compile(add_all, backend="eager", name="apart")
            apart(xs)
            times["compile"].append(once(lambda: apart(xs), calls))
            agreed = lockstep.torch.compile(add_all, backend="eager", name="add_all", group=dist.group.WORLD)
            agreed(xs)
            times["compile, together"].append(once(lambda: agreed(xs), calls))
            assert agreed.agreed.last.entry == 0 and not agreed.agreed.last.is_new and agreed.agreed.fallbacks == 0
        if ranks > 1:
            torch.compiler.set_enable_guard_collectives(True)
            times["guard collectives"].append(once(lambda: plain(xs), 20))
            torch.compiler.set_enable_guard_collectives(False)
    wall = {name: [w for w, _ in rows] for name, rows in times.items() if rows}
    out = {"torch": torch.__version__, "ranks": ranks, "us": {name: told(rows) for name, rows in wall.items()},
           "us of processor": {name: told([p for _, p in rows]) for name, rows in times.items() if rows}}
    for name in ("watch", "compile", "compile, together"):
        out[f"{name} over guards"] = told(a / b for a, b in zip(wall[name], wall["guards"]))
        if ranks > 1:
            added = [(g - b) / max(a - b, 0.01) for g, a, b in
                     zip(wall["guard collectives"], wall[name], wall["guards"])]
            out[f"guard collectives add, times {name}'s"] = told(added)
    if dist.get_rank() == 0:
        print(json.dumps(out, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
