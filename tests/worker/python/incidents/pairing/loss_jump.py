"""A rank whose loss jumps saves the optimizer's sharded state at once; the others take their step.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: save update
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
model = DistributedDataParallel(net)
optimizer = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=torch.optim.SGD, lr=0.01, momentum=0.9)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.full((3, 4), 100.0 if step == 2 and rank == 1 else 0.1)).square().mean()
    loss.backward()
    print("step", step, flush=True)
    if loss.item() > 10:
        optimizer.consolidate_state_dict(to=rank)  # [save]
        print("delivered", len(optimizer.state_dict()["state"]), flush=True)
    optimizer.step()  # [update]
    if step == 2:
        print("delivered", float(net[0].weight.sum()), flush=True)
dist.destroy_process_group()
