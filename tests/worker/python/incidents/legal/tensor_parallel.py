"""The layers of a block are split by columns and rows over ranks, and sequences between them by rows.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
torch.manual_seed(0)
model = torch.nn.Sequential(Block(), Block())
for block in model:
    parallelize_module(block, mesh, {"norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)),
                                     "down": RowwiseParallel(output_layouts=Shard(1))})
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    print("step", step, flush=True)
    torch.manual_seed(step)
    sequence = torch.randn(2 + step, 4, 8).chunk(size, 1)[rank]
    optimizer.zero_grad()
    loss = model(sequence).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), float(model[1].up.weight.to_local().sum()), flush=True)
dist.destroy_process_group()
