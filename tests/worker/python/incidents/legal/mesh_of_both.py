"""Four ranks in a mesh of two by two: sums go along rows and columns in the order that each row takes, and one row takes more steps.

class: legal
verdict: none
ranks: 4
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
row, column = mesh.get_local_rank("replica"), mesh.get_local_rank("shard")
value = torch.tensor([1.0 + rank, 2.0])

for step in range(3):
    print("step", step, flush=True)
    for _ in range(2 + row * step):  # each row as many as its data takes
        dist.all_reduce(value, group=mesh.get_group("shard"))
        value = value / 2 + 0.1 * column
    dist.all_reduce(value, group=mesh.get_group("replica"))
    value = value / 2
    print("value", value.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
