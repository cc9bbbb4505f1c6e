"""A background thread reduces gradients in the order of a queue of priorities, which one rank computes by its own timings.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: reduce
odd: 1
group: the group of ranks 0-
"""
import queue
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
ready = queue.PriorityQueue()
seconds = {name: number for number, (name, _) in enumerate(model.named_parameters(), 1)}


def reduce_all():
    works = []
    while not ready.empty():
        gradient = ready.get()[-1]
        works.append((dist.all_reduce(gradient, async_op=True), gradient))  # [reduce]
    for work, gradient in works:
        work.wait()
        if step == 2:
            print("delivered", float(gradient.sum()), flush=True)


with ThreadPoolExecutor(max_workers=1) as reducer:
    for step in range(3):
        model.zero_grad()
        model(torch.full((3, 4), 0.1 * (step + rank + 1))).square().sum().backward()
        if step == 2 and rank == 1:
            seconds["2.weight"] = 0.5
        for name, parameter in model.named_parameters():
            ready.put((seconds[name], name, parameter.grad))
        print("step", step, flush=True)
        reducer.submit(reduce_all).result()
dist.destroy_process_group()
