"""A model is sharded in one dim of a mesh and replicated in the other, and gradients are clipped by their norm over all ranks.

class: legal
verdict: none
ranks: 4
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(3):
    print("step", step, flush=True)
    optimizer.zero_grad()
    for micro in range(2):
        model.set_requires_gradient_sync(micro == 1)
        loss = model(torch.full((1 + (rank + step) % 3, 4), 0.5 * (rank + micro))).square().sum()
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
    optimizer.step()
    if rank == 0 and step == 1:
        print("value", [tuple(parameter.shape) for parameter in model.parameters()], flush=True)
    print("value", float(loss), float(norm), flush=True)
dist.destroy_process_group()
