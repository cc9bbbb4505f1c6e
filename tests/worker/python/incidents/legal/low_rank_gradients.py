"""After two plain steps DDP's hook reduces two factors of low rank in place of each gradient, one after the other's result.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)))
state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, random_seed=0)
model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for step in range(5):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.full((2 + rank, 16), 0.1 * (step + 1 + rank))).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss.detach()), flush=True)
dist.barrier()
dist.destroy_process_group()
