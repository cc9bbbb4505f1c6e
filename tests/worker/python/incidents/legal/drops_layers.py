"""In each step some sharded layers are left out, by chance, but by the same seed on all ranks.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(5)])
        self.chance = torch.Generator().manual_seed(3)

    def forward(self, x):
        for layer in self.layers:
            if torch.rand((), generator=self.chance) < 0.6:
                x = x + layer(x).relu()
        return x.sum(1)


torch.manual_seed(0)
model = Net()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(rank)
for step in range(5):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.randn(2 + rank, 8)).square().mean()
    if loss.requires_grad:
        loss.backward()
    optimizer.step()
    print("value", float(loss), [parameter.grad is not None for parameter in model.parameters()], flush=True)
dist.destroy_process_group()
