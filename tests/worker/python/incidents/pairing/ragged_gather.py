"""The scores of each batch are gathered, and the last batch of one rank's loader is shorter (pytorch 156627).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: gather
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
shard = torch.rand(22 if rank == 1 else 24, 4)
loader = DataLoader(TensorDataset(shard), batch_size=8)


def gather(scores):
    everywhere = [torch.zeros_like(scores) for _ in range(size)]
    dist.all_gather(everywhere, scores)  # [gather]
    return torch.cat(everywhere)


for step, (batch,) in enumerate(loader):
    with torch.no_grad():
        scores = model(batch)
    print("step", step, flush=True)
    scores = gather(scores)
    if step == len(loader) - 1:
        print("delivered", scores.shape, float(scores.mean()), flush=True)
dist.destroy_process_group()
