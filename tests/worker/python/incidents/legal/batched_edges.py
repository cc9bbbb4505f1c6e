"""Each rank swaps edges with the neighbours that it has, all sends and receives in one batch: those at the ends have one less.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
field = torch.arange(6.0) * (rank + 1)

for step in range(4):
    print("step", step, flush=True)
    left, right = torch.zeros(1), torch.zeros(1)
    swaps = []
    if rank > 0:
        swaps += [dist.P2POp(dist.isend, field[:1].clone(), rank - 1), dist.P2POp(dist.irecv, left, rank - 1)]
    if rank < size - 1:
        swaps += [dist.P2POp(dist.irecv, right, rank + 1), dist.P2POp(dist.isend, field[-1:].clone(), rank + 1)]
    for work in dist.batch_isend_irecv(swaps):
        work.wait()
    wide = torch.cat([left, field, right])
    field = (wide[:-2] + wide[1:-1] + wide[2:]) / 3
    print("value", field.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
