"""Sums go up a tree of ranks and down again by sends and receives: each rank does other ones, and other numbers of them.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def tree_sum(value):
    children = [child for child in (2 * rank + 1, 2 * rank + 2) if child < size]
    for child in children:
        part = torch.empty(3)
        dist.recv(part, child)
        value = value + part
    if rank > 0:
        dist.send(value, (rank - 1) // 2)
        dist.recv(value := torch.empty(3), (rank - 1) // 2)
    for child in children:
        dist.send(value, child)
    return value


for step in range(5):
    print("step", step, flush=True)
    print("value", tree_sum(torch.full((3,), float(step + rank))).tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
