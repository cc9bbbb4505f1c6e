"""Ranks take other numbers of local steps, with learning rates of their own, and average their models every other round.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02 * (rank + 1))
averager = PeriodicModelAverager(period=2)

for step in range(6):
    print("step", step, flush=True)
    for turn in range(1 + 2 * rank):
        optimizer.zero_grad()
        loss = (model(torch.full((4, 4), 0.1 * (turn + 1))) - rank).square().mean()
        loss.backward()
        optimizer.step()
    averager.average_parameters(model.parameters())
    print("value", float(loss), [float(parameter.sum()) for parameter in model.parameters()], flush=True)
dist.barrier()
dist.destroy_process_group()
