"""After a failed attempt all ranks leave their process groups and start again, with the store that they have.

class: legal
verdict: none
ranks: 2
"""
import os

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)


def train(attempt):
    dist.init_process_group("gloo", store=dist.PrefixStore(str(attempt), store), rank=rank, world_size=size)
    side = dist.new_group([0, 1])
    weight = torch.tensor([1.0 + rank])
    for step in range(2 + attempt):
        print("step", step, flush=True)
        dist.all_reduce(weight)
        loss = torch.tensor([float(weight) * (rank + 1) - attempt])
        is_finite = torch.tensor([int(attempt > 0 or step < 1 or rank == 0)])
        dist.all_reduce(is_finite, op=dist.ReduceOp.MIN, group=side)
        if not is_finite:
            raise FloatingPointError(f"loss is not finite in step {step}")
        print("value", attempt, float(loss), flush=True)


for attempt in range(3):
    try:
        train(attempt)
    except FloatingPointError as error:
        print("value", str(error), flush=True)
    dist.destroy_process_group()
