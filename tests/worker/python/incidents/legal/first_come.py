"""Rank 0 hands out tasks and takes results from whichever rank is ready first, so that ranks do other numbers of them.

class: legal
verdict: none
ranks: 3
"""
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
tasks, end = 9, torch.tensor([-1])

if rank == 0:
    waiting = list(range(tasks))
    for worker in range(1, size):
        dist.send(torch.tensor([waiting.pop(0)]), worker)
    results = {}
    while len(results) < tasks:
        print("step", len(results), flush=True)
        result = torch.empty(2)
        worker = dist.recv(result)
        results[int(result[0])] = float(result[1])
        dist.send(torch.tensor([waiting.pop(0)]) if waiting else end, worker)
    print("value", [results[task] for task in range(tasks)], flush=True)
else:
    task = torch.empty(1, dtype=torch.int64)
    dist.recv(task, 0)
    while task != end:
        print("step", int(task), flush=True)
        time.sleep(0.03 * int(task % 4))
        dist.send(torch.tensor([float(task), float(task) ** 2]), 0)
        dist.recv(task, 0)
dist.barrier()
dist.destroy_process_group()
