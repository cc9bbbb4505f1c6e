"""Rank 0 writes each checkpoint while the others wait at a barrier, and all of them read the last one back.

class: legal
verdict: none
ranks: 2 3
"""
import pathlib
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
folder = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(folder, src=0)
path = pathlib.Path(folder[0]) / "last.pt"


def train(step):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.full((3, 4), 0.1 * (step + rank))).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), flush=True)


for step in range(4):
    train(step)
    if step % 2 == 1:
        if rank == 0:
            torch.save({"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, path)
        dist.barrier()
train(4)

saved = torch.load(path, weights_only=True)
model.module.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
train(saved["step"] + 1)
dist.barrier()
if rank == 0:
    shutil.rmtree(folder[0])
dist.destroy_process_group()
