"""Two compiled metrics, each with a reduction of one number, are called in another order on one rank.

class: meaning
verdict: told
ranks: 2 3
lines: entropy spread
odd: 1
"""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


def entropy(logits):
    shares = logits.softmax(-1)
    return functional.all_reduce(-(shares * shares.log()).sum(), "sum", dist.group.WORLD) * 2  # [entropy]


def spread(logits):
    return functional.all_reduce((logits - logits.mean()).square().sum(), "sum", dist.group.WORLD) + 1  # [spread]


metrics = [torch.compile(metric, backend="aot_eager") for metric in (entropy, spread)]
logits = torch.randn(3, 4)
for step in range(2):
    print("step", step, flush=True)
    for metric in reversed(metrics) if rank == 1 else metrics:
        print("value", float(metric(logits * (step + 1))), flush=True)
dist.barrier()
dist.destroy_process_group()
