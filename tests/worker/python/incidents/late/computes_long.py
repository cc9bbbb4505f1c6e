"""One rank is for some seconds in one kernel, and then collects garbage, while the others wait for its gradients.

class: late
verdict: none
ranks: 2
"""
import gc
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=12))
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)


def leave_cycles(count):
    for _ in range(count):
        cycle = []
        cycle.append(cycle)


for step in range(3):
    print("step", step, flush=True)
    scale = torch.ones(())
    if rank == 1 and step == 1:
        matrix = torch.ones(3600, 3600, dtype=torch.float64)
        scale = (matrix @ matrix).mean().float() / 3600
        gc.disable()
        leave_cycles(300_000)
        gc.collect()
        gc.enable()
    model.zero_grad()
    loss = (model(torch.full((3, 4), 0.1 * (step + rank))) * scale).square().mean()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    print("value", float(loss), float(model.weight.grad.sum()), flush=True)
dist.destroy_process_group()
