"""One rank takes longer to compile than the time-out of the others' all-reduce.

class: late
verdict: none
ranks: 2
"""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=4))
rank = dist.get_rank()


def backend(graph, inputs):
    if rank == 1:
        time.sleep(6)
    return graph.forward


torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
model = DistributedDataParallel(net)
step_of = torch.compile(net, backend=backend)
for step in range(3):
    print("step", step, flush=True)
    model.zero_grad()
    scores = step_of(torch.full((3, 4), 0.1 * (step + rank))).detach()
    loss = (model(torch.full((3, 4), 0.1 * step)) - scores).square().mean()
    loss.backward()
    print("value", float(loss), float(net[0].weight.grad.sum()), flush=True)
dist.destroy_process_group()
