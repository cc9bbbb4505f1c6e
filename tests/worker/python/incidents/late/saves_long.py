"""Rank 0 takes 3 seconds to write a checkpoint, while the others wait for it at a barrier.

class: late
verdict: none
ranks: 2 3
"""
import io
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=8))
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)


class SlowDisk(io.BytesIO):
    def close(self):
        time.sleep(3)
        super().close()


for step in range(3):
    print("step", step, flush=True)
    model.zero_grad()
    loss = model(torch.full((3, 4), 0.1 * (step + rank))).square().mean()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    if step == 1:
        if rank == 0:
            with SlowDisk() as disk:
                torch.save(model.state_dict(), disk)
        dist.barrier()
    print("value", float(loss), float(model.weight.grad.sum()), flush=True)
dist.destroy_process_group()
