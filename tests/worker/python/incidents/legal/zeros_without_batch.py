"""The samples of a step do not suffice for all ranks: those who get none skip the model and add zeros to the gradients.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = [torch.full((n, 3), 0.2 * n) for n in (5, 1, 2, 1)]

for step, batch in enumerate(samples):
    print("step", step, flush=True)
    own = batch[(rank + step) % size::size]
    optimizer.zero_grad(set_to_none=False)
    if len(own):
        model(own).square().sum().backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= len(batch)
    optimizer.step()
    print("value", len(own), [float(parameter.sum()) for parameter in model.parameters()], flush=True)
dist.barrier()
dist.destroy_process_group()
