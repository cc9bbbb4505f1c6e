"""Rank 0 deals out rows by sends, as many as each rank asks for, and some ask for none; results come back the same way.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

for step in range(4):
    print("step", step, flush=True)
    wanted = [torch.zeros(1, dtype=torch.int64) for _ in range(size)] if rank == 0 else None
    mine = torch.tensor([(rank + step) % 3])
    dist.gather(mine, wanted, dst=0)
    if rank == 0:
        sums = []
        for peer in range(1, size):
            rows = int(wanted[peer])
            if rows:
                dist.send(torch.full((rows, 2), float(step + peer)), peer)
        for peer in reversed(range(1, size)):
            if int(wanted[peer]):
                dist.recv(answer := torch.empty(2), peer)
                sums.append(answer.tolist())
        print("value", sums, flush=True)
    elif int(mine):
        dist.recv(rows := torch.empty(int(mine), 2), 0)
        dist.send(rows.sum(0), 0)
dist.barrier()
dist.destroy_process_group()
