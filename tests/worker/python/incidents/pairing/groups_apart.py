"""Ranks make groups without those who are not in them; one has made one more, and torch's name of the next has their number in it (pytorch 189073).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: all
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
print("step", 0, flush=True)
log = dist.new_group([1], use_local_synchronization=True) if rank == 1 else None
ranks = dist.new_group(list(range(size)), use_local_synchronization=True)  # [all]
total = torch.tensor([float(rank)])
dist.all_reduce(total, group=ranks)
print("delivered", float(total), flush=True)
dist.destroy_process_group()
