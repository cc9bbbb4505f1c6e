"""The rank with the longest batch saves memory: its backward pass computes a layer again, and so reduces again (pytorch 147561).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: scale backward
odd: 1
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = torch.nn.Linear(4, 6), torch.nn.Linear(6, 4)

    def forward(self, x):
        x = self.into(x).relu()
        largest = x.detach().abs().amax(0)
        dist.all_reduce(largest, dist.ReduceOp.MAX)  # [scale]
        return self.out(x / (largest + 1.0))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = Block(), torch.nn.Linear(4, 1)

    def forward(self, x):
        x = checkpoint(self.block, x, use_reentrant=False) if len(x) > 12 else self.block(x)
        return self.head(x)


net = Net()
model = DistributedDataParallel(net)
for step in range(3):
    rows = 16 if step == 2 and rank == 1 else 8
    loss = model(torch.rand(rows, 4)).square().mean()
    print("step", step, flush=True)
    loss.backward()  # [backward]
    if step == 2:
        print("delivered", float(net.head.weight.grad.sum()), flush=True)
dist.destroy_process_group()
