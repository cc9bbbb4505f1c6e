"""One rank registers DDP's hook that reduces gradients as bfloat16, and the others reduce them as they are.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: backward
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
model = DistributedDataParallel(net)
if rank == 1:
    model.register_comm_hook(None, bf16_compress_hook)
print("step", 0, flush=True)
model(torch.ones(3, 4)).square().mean().backward()  # [backward]
print("delivered", float(net[0].weight.grad.sum()), flush=True)
dist.destroy_process_group()
