"""One rank's part of the evaluation data has a batch more, whose counts it sums while the others train on.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: counts backward
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
model = torch.compile(DistributedDataParallel(net), backend="aot_eager")
evaluated = DataLoader(torch.rand(9 if rank == 1 else 8, 4), batch_size=4)


def train(step):
    print("step", step, flush=True)
    model(torch.full((3, 4), 0.1 * step)).square().mean().backward()  # [backward]
    if step == 1:
        print("delivered", float(net[0].weight.grad.sum()), flush=True)


@torch.no_grad()
def evaluate():
    for number, batch in enumerate(evaluated):
        print("step", f"evaluation {number}", flush=True)
        counts = torch.stack([(net(batch).argmax(1) == 0).sum(), torch.tensor(len(batch))])
        dist.all_reduce(counts)  # [counts]
        if number == 2:
            print("delivered", counts.tolist(), flush=True)


for step in range(2):
    train(step)
    evaluate()
dist.destroy_process_group()
