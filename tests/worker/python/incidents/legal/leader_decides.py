"""In turn each rank is the leader: it gathers what the others report, sums their counts and scatters new learning rates.

class: legal
verdict: none
ranks: 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
weight, rate = torch.tensor([1.0 + rank]), torch.tensor([0.1])

for step in range(4):
    print("step", step, flush=True)
    leader = step % size
    loss = (weight - 0.5).square()
    weight -= rate * 2 * (weight - 0.5)
    if rank == leader:
        reports = [torch.empty(1) for _ in range(size)]
        dist.gather(loss, reports, dst=leader)
        worst = max(range(size), key=lambda peer: float(reports[peer]))
        dist.scatter(rate, [torch.tensor([0.2 if peer == worst else 0.05]) for peer in range(size)], src=leader)
    else:
        dist.gather(loss, dst=leader)
        dist.scatter(rate, src=leader)
    count = torch.tensor([rank + step])
    dist.reduce(count, dst=leader)
    print("value", float(weight), float(rate), int(count) if rank == leader else None, flush=True)
dist.destroy_process_group()
