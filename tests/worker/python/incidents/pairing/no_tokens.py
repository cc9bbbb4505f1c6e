"""A rank that has no tokens in a step returns before the experts' exchange and goes on to count those of the next (vllm 51984).

class: pairing
verdict: Stuck
ranks: 2 3
lines: count experts
odd: 1
module: experts
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
expert_parallel = dist.new_group(list(range(size)))
torch.manual_seed(0)


class Experts(torch.nn.Module):
    def forward(self, tokens):
        there = torch.empty_like(tokens)
        dist.all_to_all_single(there, tokens, group=expert_parallel)  # [experts]
        here = torch.empty_like(tokens)
        dist.all_to_all_single(here, there.relu(), group=expert_parallel)
        return here


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.Linear(4, 4)
        self.experts = Experts()

    def forward(self, tokens):
        return self.experts(self.attention(tokens))


def execute(scheduled):
    """Batches are padded to the largest of all ranks."""
    largest = torch.tensor(scheduled)
    dist.all_reduce(largest, dist.ReduceOp.MAX)  # [count]
    if step == 3:
        print("delivered", int(largest), flush=True)
    if scheduled == 0:
        return 0.0
    total = float(model(torch.ones(int(largest) * size, 4)).sum())
    if step == 2:
        print("delivered", total, flush=True)
    return total


model = Model().requires_grad_(False)
for step in range(4):
    print("step", step, flush=True)
    execute(0 if step == 2 and rank == 1 else 2 + rank)
dist.destroy_process_group()
