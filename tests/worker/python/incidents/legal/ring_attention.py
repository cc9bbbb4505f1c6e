"""Keys and values go around a ring of ranks, and each rank attends to those of all, the causal ones only.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
rows, width = 4, 8


def attend(query, key, value):
    held, best = torch.stack([key, value]), torch.full((rows, 1), -torch.inf)
    total, weights = torch.zeros(rows, width), torch.zeros(rows, 1)
    for turn in range(size):
        coming = torch.empty_like(held)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, held, (rank + 1) % size),
                                        dist.P2POp(dist.irecv, coming, (rank - 1) % size)]) if turn < size - 1 else []
        owner = (rank - turn) % size
        if owner <= rank:
            scores = query @ held[0].T / width ** 0.5
            if owner == rank:
                scores = scores.masked_fill(torch.ones(rows, rows).triu(1).bool(), -torch.inf)
            higher = torch.maximum(best, scores.amax(1, keepdim=True))
            part, kept = (scores - higher).exp(), (best - higher).exp()
            total, weights, best = total * kept + part @ held[1], weights * kept + part.sum(1, keepdim=True), higher
        for work in works:
            work.wait()
        held = coming
    return total / weights


for step in range(3):
    print("step", step, flush=True)
    out = attend(*torch.randn(3, rows, width))
    print("value", out.sum(1).tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
