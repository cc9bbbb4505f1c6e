"""Blocks that are sharded gather the next ones' weights ahead, in the forward pass and in the backward pass, and ranks have other rows.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
blocks = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(4)])
for block in blocks:
    fully_shard(block)
fully_shard(blocks)
for before, after in zip(blocks, blocks[1:]):
    before.set_modules_to_forward_prefetch([after])
    after.set_modules_to_backward_prefetch([before])
optimizer = torch.optim.AdamW(blocks.parameters(), lr=0.01)

for step in range(3):
    print("step", step, flush=True)
    loss = blocks(torch.full((3 + 2 * rank + step, 8), 0.1 * (rank + 1))).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("value", float(loss), flush=True)
dist.barrier()
dist.destroy_process_group()
