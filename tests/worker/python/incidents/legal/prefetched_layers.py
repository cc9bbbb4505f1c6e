"""The weights of the next layer are gathered while this one computes, and a rank that is through sooner gathers further ahead.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
shards = [torch.randn(4, 12 // size) for _ in range(6)]


def gather(i):
    whole = torch.empty(size * 4, 12 // size)
    return whole, dist.all_gather_into_tensor(whole, shards[i], async_op=True)


for step in range(3):
    print("step", step, flush=True)
    x = torch.full((2 + rank, 4), 0.1 * (step + 1))
    ahead, begun = {}, 0
    for i in range(6):
        while begun < min(6, i + 2 + rank):  # as far as its memory goes
            ahead[begun] = gather(begun)
            begun += 1
        whole, work = ahead.pop(i)
        work.wait()
        x = torch.tanh(x @ whole.view(size, 4, -1).sum(2).t()).sum(1, keepdim=True).expand(-1, 4)
    print("value", float(x.sum()), flush=True)
dist.barrier()
dist.destroy_process_group()
