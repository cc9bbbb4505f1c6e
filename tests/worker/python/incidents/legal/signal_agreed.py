"""One rank is told by a signal that its time is up; ranks ask each other in every step, and save together.

class: legal
verdict: none
ranks: 2 3
"""
import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
weight = torch.tensor([1.0, 2.0])

for step in range(6):
    print("step", step, flush=True)
    if step == 3 and rank == size - 1:
        os.kill(os.getpid(), signal.SIGUSR1)
    gradient = weight * (rank + 1)
    dist.all_reduce(gradient)
    weight -= 0.01 * gradient
    asked = torch.tensor([len(told)])
    dist.all_reduce(asked, op=dist.ReduceOp.MAX)
    if asked.item():
        shards = [torch.empty(2) for _ in range(size)] if rank == 0 else None
        dist.gather(weight + rank, shards, dst=0)
        if rank == 0:
            print("value", [shard.tolist() for shard in shards], flush=True)
        break
print("value", step, weight.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
