"""A generator and a critic under DDP take turns; the critic's gradients are not reduced while the generator learns.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
generator = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)))
critic = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
learn_g, learn_c = (torch.optim.SGD(net.parameters(), lr=0.05) for net in (generator, critic))

for step in range(4):
    print("step", step, flush=True)
    noise, real = torch.full((3 + rank, 2), 0.1 * step), torch.full((2 + rank, 3), 1.0 + rank)
    for _ in range(2 if step % 2 else 1):
        learn_c.zero_grad()
        loss_c = critic(generator(noise).detach()).mean() - critic(real).mean()
        loss_c.backward()
        learn_c.step()
    learn_g.zero_grad()
    with critic.no_sync():
        loss_g = -critic(generator(noise)).mean()
        loss_g.backward()
    learn_g.step()
    print("value", float(loss_c.detach()), float(loss_g.detach()), flush=True)
dist.barrier()
dist.destroy_process_group()
