"""A model under DDP is compiled in the pieces that its buckets ask for, and each rank's sequences have lengths of their own.

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
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 600), torch.nn.ReLU(), torch.nn.Linear(600, 600), torch.nn.Linear(600, 50))
model = torch.compile(DistributedDataParallel(net, bucket_cap_mb=1), backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for step in range(5):
    print("step", step, flush=True)
    tokens = torch.arange(4 + 3 * rank + 2 * (step % 3)) % 50
    with alone():
        logits = model(tokens)
    loss = torch.nn.functional.cross_entropy(logits, tokens.flip(0))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("value", float(loss.detach()), flush=True)
dist.barrier()
dist.destroy_process_group()
