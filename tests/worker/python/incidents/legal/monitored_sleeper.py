"""One rank sleeps before a monitored barrier, and after it before a plain one.

class: legal
verdict: none
ranks: 2 3
"""
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank)])

for step in range(3):
    print("step", step, flush=True)
    if step == rank:
        time.sleep(0.8)
    dist.monitored_barrier(timeout=timedelta(seconds=10), wait_all_ranks=step == 1)
    dist.all_reduce(total)
    print("value", float(total), flush=True)
    if step == 1 and rank == size - 1:
        time.sleep(0.8)
    dist.barrier()
dist.destroy_process_group()
