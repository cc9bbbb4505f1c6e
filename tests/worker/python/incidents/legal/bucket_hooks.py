"""Gradients are views of small buckets of a graph that stays as it is, and a hook reduces them in bfloat16 by futures.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
layers = [torch.nn.Linear(32, 32) for _ in range(6)]
model = DistributedDataParallel(torch.nn.Sequential(*layers), static_graph=True, gradient_as_bucket_view=True,
                                bucket_cap_mb=0.01)


def in_bfloat16(counts, bucket):
    counts.append(bucket.buffer().numel())
    small = bucket.buffer().to(torch.bfloat16).div_(size)
    future = dist.all_reduce(small, async_op=True).get_future()
    return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))


counts = []
model.register_comm_hook(counts, in_bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.full((1 + rank, 32), 0.1 * (step + rank))).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), float(layers[0].weight.grad.sum()), flush=True)
print("value", sum(counts), flush=True)
dist.barrier()
dist.destroy_process_group()
