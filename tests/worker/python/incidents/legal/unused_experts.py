"""Each rank uses another expert in a step, and leaves the parameters of the others without a gradient.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()


class Choice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 6)
        self.experts = torch.nn.ModuleList([torch.nn.Linear(6, 6) for _ in range(4)])
        self.last = torch.nn.Linear(6, 1)

    def forward(self, x, chosen):
        x = self.first(x).relu()
        for i in chosen:
            x = self.experts[i](x)
        return self.last(x)


torch.manual_seed(0)
model = DistributedDataParallel(Choice(), find_unused_parameters=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    print("step", step, flush=True)
    optimizer.zero_grad()
    chosen = [(rank + step) % 3] if step != 2 else [0, 1] * rank
    loss = model(torch.full((3, 4), 0.2 * (step + rank)), chosen).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), [float(expert.weight.sum()) for expert in model.module.experts], flush=True)
dist.destroy_process_group()
