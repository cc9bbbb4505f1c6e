"""The last batch of one rank is shorter, and a metric of each row is averaged over ranks (Lightning 7773).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: average
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(4, 1)
for step in range(4):
    rows = 5 if step == 3 and rank == 1 else 8
    with torch.no_grad():
        errors = model(torch.ones(rows, 4)).square().flatten()
    print("step", step, flush=True)
    dist.all_reduce(errors)  # [average]
    if step == 3:
        print("delivered", errors.tolist(), flush=True)
dist.destroy_process_group()
