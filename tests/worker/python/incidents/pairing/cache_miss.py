"""A rank that does not find its file of the cache warms up with a collective, which the others skip (pytorch 193043).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: warm first
odd: 1
group: the group of ranks 0-
"""
import pathlib

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
cache = pathlib.Path(f"tuning_{rank}.pt")
if rank != 1:
    torch.save({"block": 64}, cache)  # of an earlier run, on all hosts but one


def tuning():
    if cache.exists():
        return torch.load(cache)
    x = torch.ones(64, 64)
    dist.all_reduce(x)  # [warm]
    print("delivered", float(x.sum()), flush=True)
    torch.save({"block": 64}, cache)
    return {"block": 64}


dist.barrier()
print("step", 0, flush=True)
block = tuning()["block"]
model = torch.nn.Linear(block, 4)
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)  # [first]
    print("delivered", float(parameter.sum()), flush=True)
dist.destroy_process_group()
