"""A check of gradients in a hook raises on the one rank that has an infinite value, within DDP's backward pass.

class: pairing
verdict: Gone
ranks: 2 3
lines: backward
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


def checked(gradient):
    if not gradient.isfinite().all():
        raise FloatingPointError("a gradient is not finite")
    return gradient


for parameter in net[0].parameters():
    parameter.register_hook(checked)
for step in range(3):
    batch = torch.full((5, 4), 0.1 * (step + rank))
    if step == 2 and rank == 1:
        batch[3, 2] = float("inf")
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    print("step", step, flush=True)
    loss.backward()  # [backward]
    if step == 2:
        print("delivered", float(net[0].bias.grad.sum()), flush=True)
    optimizer.step()
dist.destroy_process_group()
