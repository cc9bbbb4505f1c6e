"""One rank drops the tokens that are over an expert's capacity after the counts have been exchanged.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: tokens
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
CAPACITY = 5
for step in range(3):
    rows = [3 + (rank + expert + step) % 2 for expert in range(size)]
    if step == 2 and rank == 1:
        rows[0] = 7
    counts, taken = torch.tensor(rows), torch.empty(size, dtype=torch.int64)
    dist.all_to_all_single(taken, counts)
    rows = [min(count, CAPACITY) for count in rows]
    tokens = torch.randn(sum(rows), 4)
    received = torch.empty(int(taken.sum()), 4)
    print("step", step, flush=True)
    dist.all_to_all_single(received, tokens, taken.tolist(), rows)  # [tokens]
    if step == 2:
        print("delivered", float(received.sum()), flush=True)
dist.destroy_process_group()
