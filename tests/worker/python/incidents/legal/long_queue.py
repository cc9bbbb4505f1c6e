"""Two thousand small operations are started before the first is waited for; one rank starts them later and waits for none but the last.

class: legal
verdict: none
ranks: 2
"""
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

for step in range(2):
    print("step", step, flush=True)
    parts = torch.arange(2000.0).view(2000, 1) + rank
    if rank == 1:
        time.sleep(0.5)
    works = [dist.all_reduce(part, async_op=True) for part in parts]
    for work in works if rank == 0 else works[-1:]:
        work.wait()
    dist.barrier()
    print("value", float(parts.sum()), flush=True)
dist.destroy_process_group()
