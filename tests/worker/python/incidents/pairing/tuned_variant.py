"""Each rank times two variants of a layer's reduction, and a loaded machine picks the other one (pytorch 174994).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: whole halves
odd: 1
group: the group of ranks 0-
module: layers.1
"""
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


def reduce_whole(x):
    dist.all_reduce(x)  # [whole]


def reduce_halves(x):
    for half in x.chunk(2):
        dist.all_reduce(half)  # [halves]


def measure(variant):
    """The variant's work without its peers; a machine may have other work to do meanwhile."""
    began = time.perf_counter()
    time.sleep(0.2 if variant is (reduce_whole if rank == 1 else reduce_halves) else 0.02)
    return time.perf_counter() - began


class RowParallel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 8, bias=False)
        self.reduce = reduce_whole

    def forward(self, x):
        y = self.linear(x).detach()
        self.reduce(y)
        if tuned:
            print("delivered", float(y.sum()), flush=True)
        return y


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), RowParallel()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


tuned, model = False, Model()
for step in range(3):
    if step == 2:
        model.layers[1].reduce = min((reduce_whole, reduce_halves), key=measure)
        tuned = True
    print("step", step, flush=True)
    model(torch.ones(6, 4))
dist.destroy_process_group()
