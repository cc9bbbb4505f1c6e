"""Rank 0 alone knows the validation loss; it says whether to go on, and all ranks stop together, before the last epoch.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
best = float("inf")

for epoch in range(20):
    print("step", epoch, flush=True)
    optimizer.zero_grad()
    model(torch.ones(3 + rank, 4)).square().mean().backward()
    optimizer.step()
    stops = torch.zeros(1)
    if rank == 0:
        with torch.no_grad():
            loss = float(model.module(torch.full((2, 4), 0.5)).square().mean())
        stops += float(loss > best * 0.9)
        best = min(best, loss)
    dist.broadcast(stops, src=0)
    if stops.item():
        break
print("value", epoch, float(model.module.weight.sum()), flush=True)
dist.barrier()
dist.destroy_process_group()
