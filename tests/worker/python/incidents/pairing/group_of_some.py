"""A rank makes only the groups that it is in, and then counts one less than the others when all make the next one.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: some all
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
even = [each for each in range(size) if each % 2 == 0]
x = torch.ones(3)
dist.all_reduce(x)
print("step", 0, flush=True)
if rank in even:
    writers = dist.new_group(even)  # [some]
    dist.all_reduce(x, group=writers)
metrics = dist.new_group(list(range(size)))  # [all]
y = torch.ones(2)
dist.all_reduce(y, group=metrics)
print("delivered", y.tolist(), flush=True)
dist.destroy_process_group()
