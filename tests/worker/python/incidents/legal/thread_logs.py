"""A thread of each rank averages metrics on a group of its own while the main thread trains, in no fixed order to it.

class: legal
verdict: none
ranks: 2
"""
import queue
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
logging_group = dist.new_group(list(range(size)))
waiting, averages = queue.Queue(), []


def log():
    while (loss := waiting.get()) is not None:
        if rank == 1:
            time.sleep(0.02)
        dist.all_reduce(loss, group=logging_group)
        averages.append(float(loss) / size)


thread = threading.Thread(target=log)
thread.start()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.full((2 + rank, 4), 0.1 * (step + rank))).square().mean()
    loss.backward()
    optimizer.step()
    waiting.put(loss.detach())
waiting.put(None)
thread.join()
print("value", averages, flush=True)
dist.barrier()
dist.destroy_process_group()
