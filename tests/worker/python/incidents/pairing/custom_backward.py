"""A user's own autograd function refuses a saturated input in its backward pass on one rank, between layers that FSDP2 shards.

class: pairing
verdict: Gone
ranks: 2 3
lines: backward
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        if x.abs().max() > 100:
            raise ValueError("an input is out of the quantizer's range")
        return gradient


class Quantized(torch.nn.Module):
    def forward(self, x):
        return StraightThrough.apply(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 6), Quantized(), torch.nn.Linear(6, 6))
for layer in (model[0], model[2], model):
    fully_shard(layer)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    batch = torch.full((4, 4), 1000.0 if step == 2 and rank == 1 else 0.5)
    optimizer.zero_grad()
    loss = model(batch).sum()
    print("step", step, flush=True)
    loss.backward()  # [backward]
    if step == 2:
        print("delivered", float(model[0].weight.grad.to_local().sum()), flush=True)
    optimizer.step()
dist.destroy_process_group()
