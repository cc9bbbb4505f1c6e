"""What it costs that collectives of PyTorch are compared when they are issued (lockstep.torch): microseconds of the issuing
thread's processor time that an eager all_reduce of 4 numbers takes more, by the part for this torch and by kernels in
Python; and a training step of an FSDP2 model with 500 collectives, watched against bare. Interleaved in one process per
rank; medians with 95 % intervals from order statistics, of rank 0.

    PYTHONPATH=build/release/lib torchrun --nproc-per-node N tests/bench/python_torch_lines.py [--rounds N]
"""

import argparse
import gc
import json
import math
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import lockstep.torch
from lockstep.torch import lines

LAYERS = 166  # each gathers twice and scatters once
load_part = lines.load_part


def told(values):
    """Median and 95 % interval."""
    values = sorted(values)
    n = len(values)
    cut = max(int(n / 2 - 0.98 * math.sqrt(n)), 0)
    return [round(value, 3) for value in (statistics.median(values), values[cut], values[-1 - cut])]


def watched(part):
    lines.load_part = load_part if part else lambda: None
    return lockstep.torch.watch()


def issued(calls, row):
    """Microseconds of this thread's processor time to issue one."""
    begin = time.thread_time_ns()
    works = [dist.all_reduce(row, async_op=True) for _ in range(calls)]
    spent = time.thread_time_ns() - begin
    for work in works:
        work.wait()
    return spent / calls / 1000


def eager(rounds):
    row = torch.ones(4)
    issued(500, row)
    bare, with_part, with_python = [], [], []
    for _ in range(rounds):
        bare.append(issued(200, row))
        for part, times in ((True, with_part), (False, with_python)):
            with watched(part):
                issued(50, row)
                times.append(issued(200, row))
        issued(50, row)
    return {"bare": told(bare), "more": told([a - b for a, b in zip(with_part, bare)]),
            "more, in Python": told([a - b for a, b in zip(with_python, bare)])}


def step_of(model, x):
    begin = time.perf_counter_ns()
    model(x).sum().backward()
    dist.barrier()
    return (time.perf_counter_ns() - begin) / 1e6


def sharded(rounds):
    """Milliseconds of a step, bare and watched, in pairs."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(LAYERS)])
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    x = torch.ones(4, 64)
    for _ in range(3):
        step_of(model, x)
    bare, ours = [], []
    for i in range(rounds):
        for is_watched in ((False, True), (True, False))[i % 2]:
            if is_watched:
                with watched(True):
                    step_of(model, x)
                    ours.append(statistics.median(step_of(model, x) for _ in range(3)))
            else:
                step_of(model, x)
                bare.append(statistics.median(step_of(model, x) for _ in range(3)))
    return {"collectives": 3 * LAYERS, "bare ms": told(bare), "watched ms": told(ours),
            "ratio": told([a / b for a, b in zip(ours, bare)])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    gc.disable()
    out = {"torch": torch.__version__, "ranks": dist.get_world_size(), "part": load_part() is not None,
           "eager all_reduce, us": eager(rounds), "FSDP2 step": sharded(rounds)}
    if dist.get_rank() == 0:
        print(json.dumps(out, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
