"""Ranks make groups of halves, and then of even and odd ranks, without those who are not in them, and use them unequally often.

class: legal
verdict: none
ranks: 4
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
is_left, is_even = rank < size // 2, rank % 2 == 0
half = dist.new_group([peer for peer in range(size) if (peer < size // 2) == is_left], use_local_synchronization=True)
alike = dist.new_group([peer for peer in range(size) if (peer % 2 == 0) == is_even], use_local_synchronization=True)
value = torch.tensor([float(4 ** rank)])


def average(group, times):
    for _ in range(times):
        shared = value.clone()
        dist.all_reduce(shared, group=group)
        value.copy_(0.5 * value + 0.25 * shared)


for step in range(4):
    print("step", step, flush=True)
    average(half, 1 if is_left else 3)
    average(alike, 2 if is_even else 1)
    told = [{"step": step, "from": rank}]
    dist.broadcast_object_list(told, src=dist.get_global_rank(half, step % 2), group=half)
    print("value", float(value), told[0], flush=True)
dist.barrier()
dist.destroy_process_group()
