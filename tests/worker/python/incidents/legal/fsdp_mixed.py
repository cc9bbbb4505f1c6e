"""Blocks are sharded one by one in bfloat16, some of them kept after the forward pass; ranks have other numbers of rows.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


torch.manual_seed(0)
model = torch.nn.Sequential(*[Block() for _ in range(4)])
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for i, block in enumerate(model):
    fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=i % 2 == 0)
fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

for step in range(3):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.full((1 + rank * (step + 2), 8), 0.3)).float().square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), float(model[0].up.weight.to_local().sum()), flush=True)
dist.destroy_process_group()
