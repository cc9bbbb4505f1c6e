"""The gradient of an embedding is sparse, and ranks have other numbers of rows in it.

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
net = torch.nn.Sequential(torch.nn.EmbeddingBag(20, 4, mode="sum", sparse=True), torch.nn.Linear(4, 1))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for step in range(4):
    print("step", step, flush=True)
    bags = torch.arange((1 + rank + step) * 2).reshape(-1, 2) % 20
    optimizer.zero_grad()
    loss = model(bags).square().mean()
    loss.backward()
    rows = net[0].weight.grad.coalesce().indices()[0].tolist()
    optimizer.step()
    print("value", float(loss), rows, float(net[0].weight.sum()), flush=True)
dist.destroy_process_group()
