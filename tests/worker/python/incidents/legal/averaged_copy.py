"""Hooks reduce gradients while the backward pass goes on; rank 0 alone keeps a moving average of the weights and the metrics.

class: legal
verdict: none
ranks: 2 3
"""
import copy

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
averaged = copy.deepcopy(model) if rank == 0 else None
works = []
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(lambda p: works.append(dist.all_reduce(p.grad.div_(size), async_op=True)))

for step in range(4):
    print("step", step, flush=True)
    model.zero_grad()
    loss = model(torch.full((2 + rank, 4), 0.2 * (step + rank))).square().mean()
    loss.backward()
    while works:
        works.pop(0).wait()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    metrics = torch.tensor([float(loss), 2.0 + rank])
    dist.reduce(metrics, dst=0)
    if rank == 0:
        with torch.no_grad():
            for kept, new in zip(averaged.parameters(), model.parameters()):
                kept.lerp_(new, 0.1)
            print("value", (metrics / size).tolist(), float(averaged(torch.ones(1, 4))), flush=True)
    print("value", float(loss), flush=True)
dist.barrier()
dist.destroy_process_group()
