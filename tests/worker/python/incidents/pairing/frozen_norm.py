"""One rank leaves a normalization in evaluation mode, so that it does not share its statistics, and is in DDP's backward first.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: statistics backward
odd: 1
module: norm
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


class SharedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        mean = x.mean(0) / size
        dist.all_reduce(mean)  # [statistics]
        return x - mean

    @staticmethod
    def backward(ctx, gradient):
        mean = gradient.mean(0) / size
        dist.all_reduce(mean)
        return gradient - mean


class Norm(torch.nn.Module):
    def forward(self, x):
        return SharedMean.apply(x) if self.training else x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.norm, self.out = torch.nn.Linear(4, 6), Norm(), torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.out(self.norm(self.into(x)))


net = Net()
model = DistributedDataParallel(net)
for step in range(3):
    if step == 2 and rank == 1:
        net.norm.eval()
    print("step", step, flush=True)
    loss = model(torch.rand(8, 4)).square().mean()
    if step == 2 and rank != 1:
        print("delivered", float(loss), flush=True)
    loss.backward()  # [backward]
    if step == 2:
        print("delivered", float(net.into.weight.grad.sum()), flush=True)
dist.destroy_process_group()
