"""Rank 0 evaluates a compiled model while the others wait at a barrier.

class: legal
verdict: none
ranks: 2
error: refused
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    from lockstep.torch import alone
except ImportError:
    from contextlib import nullcontext as alone

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
model = torch.compile(DistributedDataParallel(net), backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.full((4, 4), 0.1 * (step + rank))).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), flush=True)
    if rank == 0:
        with torch.no_grad(), alone():
            print("value", float(torch.compile(net, backend="aot_eager")(torch.ones(7, 4)).mean()), flush=True)
    dist.barrier()
dist.destroy_process_group()
