"""Ranks wait for each other by keys of a store as well: one only looks for a message there, and comes to the all-reduce when it has it.

class: legal
verdict: none
ranks: 2 3
"""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)
dist.init_process_group("gloo", store=dist.PrefixStore("job", store), rank=rank, world_size=size)
messages = dist.PrefixStore("messages", store)

for step in range(3):
    print("step", step, flush=True)
    if rank == 0:
        time.sleep(0.6)  # it looks for a file
        messages.set(f"step {step}", str(0.5 + step))
    else:
        messages.wait([f"step {step}"], timedelta(seconds=30))
    rate = float(messages.get(f"step {step}"))
    total = torch.tensor([rate * (rank + 1)])
    dist.all_reduce(total)
    print("value", float(total), flush=True)
dist.barrier()
dist.destroy_process_group()
