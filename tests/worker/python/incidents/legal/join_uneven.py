"""Ranks have other numbers of batches, and train within Join, where those that have finished shadow the others.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

with Join([model]):
    for step in range(3 + 2 * rank):
        print("step", step, flush=True)
        optimizer.zero_grad()
        loss = model(torch.full((2 + step, 4), 0.1 * (step + 1))).square().mean()
        loss.backward()
        optimizer.step()
        print("value", float(loss), flush=True)
print("value", [float(parameter.sum()) for parameter in model.parameters()], flush=True)
dist.destroy_process_group()
