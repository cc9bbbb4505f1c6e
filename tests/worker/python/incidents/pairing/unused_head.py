"""A batch of one rank has no rows for the second head, whose bucket DDP never reduces there; the loss comes next.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: backward loss
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2), torch.nn.Linear(8, 3)

    def forward(self, x, labelled):
        y = self.trunk(x).relu()
        loss = self.first(y).square().mean()
        if labelled.any():
            loss = loss + self.second(y[labelled]).square().mean()
        return loss


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = TwoHeads()
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    labelled = torch.arange(6) % 2 == 0
    if step == 2 and rank == 1:
        labelled[:] = False
    optimizer.zero_grad()
    loss = model(torch.full((6, 4), 0.1 * (rank + step)), labelled)
    print("step", step, flush=True)
    loss.backward()  # [backward]
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)  # [loss]
    if step == 2:
        print("delivered", float(mean), flush=True)
dist.destroy_process_group()
