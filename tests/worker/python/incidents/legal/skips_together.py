"""A batch of one rank is broken and raises, which it catches; all ranks learn of it and leave the step out together.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)


def batch_of(step):
    words = ["0.1", "0.2", "0.4", "0.3"] if (step, rank) != (2, 1) else ["0.1", "", "0.4", "0.3"]
    return torch.tensor([[float(word) for word in words]] * (1 + step))


for step in range(5):
    print("step", step, flush=True)
    is_good = torch.ones(1, dtype=torch.int32)
    try:
        batch = batch_of(step)
    except ValueError as error:
        print("value", str(error), flush=True)
        is_good.zero_()
    dist.all_reduce(is_good, op=dist.ReduceOp.MIN)
    if not is_good:
        continue
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(batch).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print("value", float(loss), flush=True)
dist.destroy_process_group()
