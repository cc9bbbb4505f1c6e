"""The model of one rank has a layer more, from an older configuration file; gradients are reduced as they become ready.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: reduce
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
widths = [4, 8, 8, 2] if rank == 1 else [4, 8, 2]
layers = [torch.nn.Linear(before, after, bias=False) for before, after in zip(widths, widths[1:])]
model = torch.nn.Sequential(*layers)


def reduce(parameter):
    dist.all_reduce(parameter.grad)  # [reduce]
    if parameter is not layers[-1].weight:
        print("delivered", float(parameter.grad.sum()), flush=True)


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(reduce)
print("step", 0, flush=True)
model(torch.ones(3, 4)).square().sum().backward()
dist.destroy_process_group()
