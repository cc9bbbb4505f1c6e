"""Projections of equal shape are computed in the order of a set, so that their gradients become ready in another one.

class: meaning
verdict: told
ranks: 2 3
lines: query key
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
projections = torch.nn.ModuleDict({"query": torch.nn.Linear(4, 4, bias=False), "key": torch.nn.Linear(4, 4, bias=False)})
order = ["query", "key"] if rank != 1 else ["key", "query"]


def reduce_query(parameter):
    dist.all_reduce(parameter.grad)  # [query]


def reduce_key(parameter):
    dist.all_reduce(parameter.grad)  # [key]


projections["query"].weight.register_post_accumulate_grad_hook(reduce_query)
projections["key"].weight.register_post_accumulate_grad_hook(reduce_key)
for step in range(2):
    projections.zero_grad()
    x = torch.full((3, 4), 0.5 + step)
    projected = {}
    for name in order:
        projected[name] = projections[name](x)
    print("step", step, flush=True)
    (projected["query"] @ projected["key"].T).sum().backward()
    for name in ("query", "key"):
        print("value", projections[name].weight.grad.sum(1).tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
