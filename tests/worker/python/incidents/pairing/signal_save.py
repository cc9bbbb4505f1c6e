"""One rank gets the signal to save, and its handler waits for all ranks before it writes; the others are in a sharded layer.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: wait down
odd: 1
module: down
"""
import os
import signal

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


class Feed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.down(self.up(x).relu())  # [down]


def save(number, frame):
    dist.barrier()  # [wait]
    print("delivered", "all ranks save", flush=True)
    torch.save(model.state_dict(), f"model_{rank}.pt")


signal.signal(signal.SIGUSR1, save)
model = parallelize_module(Feed(), init_device_mesh("cpu", (size,)), {"up": ColwiseParallel(), "down": RowwiseParallel()})
for step in range(4):
    print("step", step, flush=True)
    if step == 3 and rank == 1:
        os.kill(os.getpid(), signal.SIGUSR1)
    y = model(torch.full((3, 4), 0.1 * step))
    if step == 3:
        print("delivered", float(y.sum()), flush=True)
dist.destroy_process_group()
