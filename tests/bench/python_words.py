"""What it costs that ranks share a few numbers, from Python: lockstep.agree() and what is left of agree_ahead(), against
all_reduce of PyTorch's gloo group and of mpi4py (where it is installed), interleaved in one run. Microseconds of rank 0:
medians with their 95 % intervals, and ratios to gloo.

    PYTHONPATH=build/release/lib scripts/mpirun -n 2 PYTHON tests/bench/python_words.py [--out FILE]    # a PYTHON with torch
"""

import argparse
import json
import math
import os
import socket
import statistics
import time

import lockstep
import torch
import torch.distributed as dist

BATCHES, CALLS = 41, 500


def interval(values):
    values, half = sorted(values), 0.98 * math.sqrt(len(values))
    at = lambda place: values[min(max(int(place), 0), len(values) - 1)]  # noqa: E731
    return [round(x, 3) for x in (statistics.median(values), at(len(values) / 2 - half), at(len(values) / 2 + half))]


def timed(call, calls):
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - start) / calls / 1000


def ahead(group, words):
    """The time of result() alone, once the votes have arrived."""
    def call():
        cast = lockstep.agree_ahead("ahead", group=group, max=words)
        for _ in range(40):
            group.poke()
        dist.barrier()  # every rank has cast, and moved on
        for _ in range(40):
            group.poke()
        return timed(cast.result, 1)
    return [call() for _ in range(BATCHES)]


def gloo():
    """Starts torch.distributed among the ranks that have met as a lockstep group."""
    group = lockstep.Group(deadline=60)
    port = 0
    if group.rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    port = lockstep.agree("port", group=group, max=port)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=group.rank, world_size=group.size)
    return group


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--out", help="JSON file")
    out = arguments.parse_args().out
    torch.set_num_threads(1)
    group = gloo()
    one, eight = 3, list(range(8))
    tensor, row = torch.arange(8), torch.arange(8)
    calls = {"gloo all_reduce of 8": lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX),
             "agree(max=n)": lambda: lockstep.agree("one", group=group, max=one),
             "agree(max=[8 words])": lambda: lockstep.agree("eight", group=group, max=eight),
             "Group.any()": lambda: group.any(False)}
    try:
        import numpy
        from mpi4py import MPI
        mine, most = numpy.arange(8), numpy.arange(8)
        calls["mpi4py Allreduce of 8"] = lambda: MPI.COMM_WORLD.Allreduce(mine, most, op=MPI.MAX)
    except ImportError:
        pass
    times = {name: [] for name in calls}
    for _ in range(BATCHES):
        for name, call in [*calls.items(), *reversed(calls.items())]:
            dist.barrier()
            times[name].append(timed(call, CALLS // 10 if "gloo" in name else CALLS))
    assert torch.equal(tensor, row)
    result = {"torch": torch.__version__, "ranks": group.size, "us": {name: interval(own) for name, own in times.items()}}
    floor = times["gloo all_reduce of 8"]
    result["gloo_over_ours"] = {name: interval([f / o for f, o in zip(floor, own)]) for name, own in times.items()
                                if name != "gloo all_reduce of 8"}
    result["us"]["agree_ahead(max=n).result()"] = interval(ahead(group, one))
    result["us"]["agree_ahead(max=[8 words]).result()"] = interval(ahead(group, eight))
    if group.rank == 0:
        for name, (median, low, high) in result["us"].items():
            ratio = result["gloo_over_ours"].get(name)
            print(f"{name:38} {median:9.2f} us [{low:.2f}, {high:.2f}]" + (f"  gloo/ours {ratio[0]:.1f}" if ratio else ""))
        if out:
            with open(out, "w") as file:
                json.dump(result, file, indent=2)
    dist.destroy_process_group()
    group.finish()
    group.close()


if __name__ == "__main__":
    main()
