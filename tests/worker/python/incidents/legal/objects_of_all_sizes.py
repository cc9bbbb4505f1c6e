"""Ranks gather, broadcast and scatter lists of samples: pickled, they have other sizes on each rank and in each step.

class: legal
verdict: none
ranks: 2 3
"""
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

for step in range(4):
    print("step", step, flush=True)
    seen = [None] * size
    dist.all_gather_object(seen, {"rank": rank, "samples": list(range(rank * 100 * step))})
    source = step % size
    plan = [["x" * (50 * step), source], None] if rank == source else [None, None]
    dist.broadcast_object_list(plan, src=source)
    mine = [None]
    dist.scatter_object_list(mine, [("part", i) * (i + 1) for i in range(size)] if rank == source else None, src=source)
    print("value", [len(each["samples"]) for each in seen], len(plan[0][0]), mine, flush=True)
dist.barrier()
dist.destroy_process_group()
