"""A compiled step reduces rows of small batches and means of large ones, and one rank's batch is large.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: rows mean
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
weight = torch.randn(4, 3)


def statistics(x):
    y = (x @ weight).relu()
    if y.shape[0] > 6:
        return functional.all_reduce(y.mean(0), "sum", dist.group.WORLD) * 2  # [mean]
    return functional.all_reduce(y, "sum", dist.group.WORLD).mean(0) * 2  # [rows]


compiled = torch.compile(statistics, backend="aot_eager")
for step in range(3):
    rows = 8 if step == 2 and rank == 1 else 4 + step
    print("step", step, flush=True)
    seen = float(compiled(torch.ones(rows, 4)).sum())
    if step == 2:
        print("delivered", seen, flush=True)
dist.destroy_process_group()
