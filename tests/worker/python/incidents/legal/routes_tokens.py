"""A router sends tokens to the rank of their expert: how many depends on the data, and ranks tell each other before.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context, rows, sent, taken):
        context.splits = sent, taken
        out = rows.new_empty(sum(taken), rows.size(1))
        dist.all_to_all_single(out, rows.contiguous(), taken, sent)
        return out

    @staticmethod
    def backward(context, gradient):
        sent, taken = context.splits
        out = gradient.new_empty(sum(sent), gradient.size(1))
        dist.all_to_all_single(out, gradient.contiguous(), sent, taken)
        return out, None, None


torch.manual_seed(0)
router = torch.nn.Linear(4, size)
torch.manual_seed(1 + rank)
expert = torch.nn.Linear(4, 4)
for step in range(4):
    print("step", step, flush=True)
    tokens = torch.randn(3 + rank + step, 4)
    chosen = router(tokens).argmax(1)
    order = chosen.argsort(stable=True)
    sent = torch.bincount(chosen, minlength=size)
    taken = torch.empty_like(sent)
    dist.all_to_all_single(taken, sent)
    rows = Exchange.apply(tokens[order].requires_grad_(), sent.tolist(), taken.tolist())
    back = Exchange.apply(expert(rows), taken.tolist(), sent.tolist())
    back.square().mean().backward()
    print("value", sent.tolist(), taken.tolist(), float(back.sum()), float(expert.weight.grad.sum()), flush=True)
dist.destroy_process_group()
