"""Each rank compiles the optimizer's step for the parameters that are its own, of other sizes, and broadcasts them afterwards.

class: legal
verdict: none
ranks: 2 3
error: refused
"""
import torch
import torch.distributed as dist

try:
    from lockstep.torch import alone
except ImportError:
    from contextlib import nullcontext as alone

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
parameters = list(net.parameters())
optimizer = torch.optim.Adam(parameters[rank::size], lr=0.01)


@torch.compile(backend="aot_eager")
def update():
    optimizer.step()


for step in range(3):
    print("step", step, flush=True)
    net(torch.full((2 + rank, 4), 0.3)).square().mean().backward()
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
    with alone():
        update()
    net.zero_grad()
    with torch.no_grad():
        works = [dist.broadcast(parameter, i % size, async_op=True) for i, parameter in enumerate(parameters)]
        for work in works:
            work.wait()
    print("value", float(sum(parameter.sum() for parameter in parameters)), flush=True)
dist.barrier()
dist.destroy_process_group()
