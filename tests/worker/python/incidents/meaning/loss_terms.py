"""The terms of a loss stand in the order of a file of settings, which has been written anew on one rank (Lightning 20946).

class: meaning
verdict: told
ranks: 2 3
lines: contrastive ranking
odd: 1
"""
import json

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
settings = '{"ranking": 0.5, "contrastive": 2.0}' if rank == 1 else '{"contrastive": 2.0, "ranking": 0.5}'


class Contrastive(torch.nn.Module):
    def forward(self, x):
        everybody = torch.empty(size * len(x), 4)
        dist.all_gather_into_tensor(everybody, x)  # [contrastive]
        return everybody.square().sum()


class Ranking(torch.nn.Module):
    def forward(self, x):
        everybody = torch.empty(size * len(x), 4)
        dist.all_gather_into_tensor(everybody, x.sort().values)  # [ranking]
        return everybody.amax()


terms = {"contrastive": Contrastive(), "ranking": Ranking()}
weights = json.loads(settings)
for step in range(2):
    x = torch.arange(8.0).view(2, 4).flip(1) + step + rank
    print("step", step, flush=True)
    print("value", float(sum(weight * terms[name](x) for name, weight in weights.items())), flush=True)
dist.barrier()
dist.destroy_process_group()
