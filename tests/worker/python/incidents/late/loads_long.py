"""One rank's loader takes 3 seconds for a batch, less than the time-out of the others' all-reduce.

class: late
verdict: none
ranks: 2
"""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

dist.init_process_group("gloo", timeout=timedelta(seconds=8))
rank = dist.get_rank()


class Remote(IterableDataset):
    def __iter__(self):
        for i in range(4):
            if rank == 1 and i == 2:
                time.sleep(3)
            yield torch.full((4,), 0.1 * (i + rank))


torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(DataLoader(Remote(), batch_size=1)):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), flush=True)
dist.destroy_process_group()
