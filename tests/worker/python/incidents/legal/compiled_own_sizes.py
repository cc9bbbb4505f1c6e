"""A compiled model gets sequences of other lengths on each rank, and compiles again on one; gradients go by hooks in eager code.

class: legal
verdict: none
ranks: 2
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
net = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 16))
model = torch.compile(net, backend="aot_eager")


def average(parameter):
    dist.all_reduce(parameter.grad)
    parameter.grad /= size


for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(average)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step, length in enumerate((4, 4, 4, 4, 4) if rank == 0 else (4, 6, 9, 3, 17)):
    print("step", step, flush=True)
    tokens = torch.arange(2 * length).reshape(2, length) % 16
    optimizer.zero_grad()
    with alone():
        logits = model(tokens)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    print("value", float(loss), flush=True)
dist.barrier()
dist.destroy_process_group()
