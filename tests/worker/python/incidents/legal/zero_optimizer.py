"""Each rank keeps the optimizer's state for some parameters, and rank 0 collects all of it before it counts it.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)

for step in range(3):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.full((2 + rank, 4), 0.3 * (step + rank))).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), [float(parameter.sum()) for parameter in model.parameters()], flush=True)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        state = optimizer.state_dict()["state"]
        print("value", [float(state[i]["exp_avg"].sum()) for i in sorted(state)], flush=True)
dist.barrier()
dist.destroy_process_group()
