"""Neighbours swap their edges, even ranks sending first; a pass moves the sum after it to the front on one rank (pytorch 189454).

class: pairing
verdict: Stuck
ranks: 2 3
lines: send sum
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def swap(field):
    edge = torch.empty(3)
    if rank % 2 == 0:
        dist.send(field[-3:].clone(), (rank + 1) % size)  # [send]
    dist.recv(edge, (rank - 1) % size)
    if rank % 2 == 1:
        dist.send(field[-3:].clone(), (rank + 1) % size)
    field[:3] = edge


def energy(field):
    total = field.square().sum()
    dist.all_reduce(total)  # [sum]
    if step == 2:
        print("delivered", float(total), flush=True)


field = torch.arange(6.0) + rank
plan = [swap, energy]
for step in range(3):
    if step == 2 and rank == 1:
        plan.reverse()
    print("step", step, flush=True)
    for part in plan:
        part(field)
dist.destroy_process_group()
