"""Each rank keeps and updates its part of the weights: they are gathered before a step, and gradients are scattered after it.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
count = sum(parameter.numel() for parameter in model.parameters())
rows = -(-count // size)
whole = torch.nn.functional.pad(parameters_to_vector(model.parameters()).detach(), (0, rows * size - count))
shard = whole[rank * rows:(rank + 1) * rows].clone().requires_grad_()
optimizer = torch.optim.Adam([shard], lr=0.01)

for step in range(4):
    print("step", step, flush=True)
    dist.all_gather_into_tensor(whole, shard.detach())
    vector_to_parameters(whole[:count], model.parameters())
    model.zero_grad()
    loss = model(torch.full((1 + rank + step, 4), 0.1 * (step + rank))).square().mean()
    loss.backward()
    gradient = torch.nn.functional.pad(parameters_to_vector([p.grad for p in model.parameters()]), (0, rows * size - count))
    shard.grad = torch.empty(rows)
    dist.reduce_scatter_tensor(shard.grad, gradient)
    optimizer.step()
    print("value", float(loss), float(shard.sum()), flush=True)
dist.barrier()
dist.destroy_process_group()
