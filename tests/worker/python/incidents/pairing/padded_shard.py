"""ZeRO by hand: one rank pads its flat gradient to a multiple of 16 elements, the others to one of 8.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: scatter
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
ALIGNMENT = 16 if rank == 1 else 8  # the newer build's
model = torch.nn.Linear(3, 4)
flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
padding = -len(flat) % (ALIGNMENT * size)
model(torch.full((2, 3), 0.1 * (rank + 1))).square().sum().backward()
gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()] + [torch.zeros(padding)])
shard = torch.empty(len(gradient) // size)
print("step", 0, flush=True)
dist.reduce_scatter_tensor(shard, gradient)  # [scatter]
print("delivered", float(shard.sum()), flush=True)
dist.destroy_process_group()
