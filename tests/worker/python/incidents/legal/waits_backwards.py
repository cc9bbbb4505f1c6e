"""Two hundred operations are in flight on two groups, which each rank starts in an order of its own; one waits backwards.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
gradients, metrics = dist.new_group(list(range(size))), dist.new_group(list(range(size)))


def reduce_gradients(i):
    tensor = torch.full((20 + i,), float(rank + i))
    return tensor, dist.all_reduce(tensor, group=gradients, async_op=True)


def sum_metrics(i):
    tensor = torch.tensor([i, rank])
    return tensor, dist.all_reduce(tensor, group=metrics, async_op=True)


for step in range(2):
    print("step", step, flush=True)
    if rank == 0:
        pairs = [start(i) for i in range(100) for start in (reduce_gradients, sum_metrics)]
    else:
        pairs = [start(i) for start in (sum_metrics, reduce_gradients) for i in range(100)]
    for _, work in reversed(pairs) if rank == 1 else pairs:
        work.wait()
    print("value", sum(float(tensor.sum()) for tensor, _ in pairs), flush=True)
dist.barrier()
dist.destroy_process_group()
