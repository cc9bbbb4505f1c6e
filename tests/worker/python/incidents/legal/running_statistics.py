"""Statistics of batch normalization go from rank 0 to all before each forward pass; ranks have other numbers of rows.

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
net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
model = DistributedDataParallel(net, broadcast_buffers=True, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(4):
    print("step", step, flush=True)
    optimizer.zero_grad()
    rows = torch.linspace(0, 1, 3 * (2 + rank + step)).view(-1, 3)
    loss = model(rows).square().mean()
    loss.backward()
    optimizer.step()
    if step == 2:
        model.eval()
        with torch.no_grad():
            print("value", float(model(rows[:1 + rank]).sum()), flush=True)
        model.train()
    print("value", float(loss.detach()), net[1].running_mean.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
