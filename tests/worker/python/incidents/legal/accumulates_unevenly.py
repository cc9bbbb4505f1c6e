"""Ranks take other numbers of micro-batches for a step, all but the last of them within no_sync().

class: legal
verdict: none
ranks: 2
"""
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
documents = [[3, 1, 2, 5], [4, 4, 3, 1], [7, 2, 2, 2]] if rank == 0 else [[8], [5, 6], [2, 2, 2, 2, 2, 2]]

for step, lengths in enumerate(documents):
    print("step", step, flush=True)
    optimizer.zero_grad()
    for i, length in enumerate(lengths):
        is_last = i == len(lengths) - 1
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss = model(torch.full((length, 4), 0.1 * length)).square().sum() / sum(lengths)
            loss.backward()
    optimizer.step()
    print("value", float(loss), float(model.module[0].weight.grad.sum()), flush=True)
dist.destroy_process_group()
