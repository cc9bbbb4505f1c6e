"""The last rank leaves after two steps, and the others start again without it.

class: legal
verdict: none
ranks: 3
"""
import os

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)
weight = torch.tensor([1.0 + rank, 2.0])


def train(attempt, members, steps):
    dist.init_process_group("gloo", store=dist.PrefixStore(str(attempt), store), rank=rank, world_size=members)
    for step in steps:
        print("step", step, flush=True)
        dist.all_reduce(weight)
        weight.div_(members)
        weight.add_(0.1 * rank)
        print("value", weight.tolist(), flush=True)
    dist.destroy_process_group()


train(0, size, range(2))
if rank < size - 1:
    train(1, size - 1, range(2, 5))
