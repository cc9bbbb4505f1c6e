"""Sharded tables exchange rows in one group, replicas reduce in another; one rank does the second first (torchrec 4149).

class: pairing
verdict: Stuck
ranks: 2 3
lines: exchange reduce
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
sharding, replicas = dist.new_group(list(range(size))), dist.new_group(list(range(size)))


def exchange(step):
    rows = torch.empty(2 * size)
    dist.all_to_all_single(rows, torch.full((2 * size,), 1.0 + step), group=sharding)  # [exchange]
    if step == 2:
        print("delivered", float(rows.sum()), flush=True)


def reduce(step):
    gradient = torch.full((4,), 1.0 + step)
    dist.all_reduce(gradient, group=replicas)  # [reduce]
    if step == 2:
        print("delivered", float(gradient.sum()), flush=True)


for step in range(3):
    print("step", step, flush=True)
    is_late = step == 2 and rank == 1
    for stage in (reduce, exchange) if is_late else (exchange, reduce):
        stage(step)
dist.destroy_process_group()
