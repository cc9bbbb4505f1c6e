"""Groups are made in the order of a set of their names, which is another one in one process.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: make
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
members = {"data": list(range(size)), "writers": [0]}
names = ["data", "writers"] if rank != 1 else ["writers", "data"]
groups = {}
dist.barrier()
print("step", 0, flush=True)
for name in names:
    groups[name] = dist.new_group(members[name])  # [make]
x = torch.ones(3)
dist.all_reduce(x, group=groups["data"])
print("delivered", x.tolist(), flush=True)
dist.destroy_process_group()
