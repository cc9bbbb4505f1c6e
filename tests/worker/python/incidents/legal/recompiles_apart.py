"""One rank anneals a number that its compiled loss has as a constant, and compiles it anew in each step; the other never.

class: legal
verdict: none
ranks: 2
error: refused
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    from lockstep.torch import alone
except ImportError:
    from contextlib import nullcontext as alone

dist.init_process_group("gloo")
rank = dist.get_rank()


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.power, self.names = 1, ["base"]

    def forward(self, x):
        return (x.abs() ** self.power).mean() + len(self.names)


torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
loss_of = Loss()
compiled = torch.compile(loss_of, backend="aot_eager")
for step in range(5):
    print("step", step, flush=True)
    model.zero_grad()
    out = model(torch.full((3, 4), 0.1 * (step + 1)))
    with alone():
        loss = compiled(out)
    loss.backward()
    if rank == 1:
        loss_of.power += 1
        loss_of.names.append(f"step {step}")
        loss_of.train(step % 2 == 0)
    print("value", float(loss), float(model.module.weight.grad.sum()), flush=True)
dist.destroy_process_group()
