"""A table with a number of rows that ranks cannot share evenly goes from one placement to another.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))

for step, rows in enumerate((7, 2, 10)):
    print("step", step, flush=True)
    table = distribute_tensor(torch.arange(rows * 5.0).reshape(rows, 5), mesh, [Shard(0)])
    columns = (table * 2 + 1).redistribute(mesh, [Shard(1)])
    weight = distribute_tensor(torch.ones(5, 2), mesh, [Shard(0)])
    product = columns @ weight
    print("value", table.to_local().size(0), columns.to_local().tolist(), flush=True)
    print("value", product.redistribute(mesh, [Replicate()]).to_local().tolist(), flush=True)
    if rank == 0:
        print("value", float(table.to_local().sum()), flush=True)
    print("value", float(columns.full_tensor().sum()), flush=True)
dist.barrier()
dist.destroy_process_group()
