"""One rank has less memory: it alone recomputes activations in its backward pass, while the other keeps them.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo")
rank = dist.get_rank()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Dropout(0.1))
                                           for _ in range(4)])

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if rank == 1 else block(x)
        return x


torch.manual_seed(0)
model = DistributedDataParallel(Net(), bucket_cap_mb=0.0005)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(3):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.randn(2 + rank, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), float(model.module.blocks[0][0].weight.sum()), flush=True)
dist.destroy_process_group()
