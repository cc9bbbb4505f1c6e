"""All take over the weights of the rank with the least loss, which one rank compares with a newer loss of its own.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: take
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = torch.nn.Linear(4, 1)


def take_best(losses):
    best = min(range(size), key=losses.__getitem__)
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    dist.broadcast(weights, best)  # [take]
    torch.nn.utils.vector_to_parameters(weights, model.parameters())
    return weights


for step in range(2):
    loss, losses = [0.5, 0.3, 0.6][rank], [None] * size
    dist.all_gather_object(losses, loss)
    if step == 1 and rank == 1:
        losses[rank] = 0.9
    print("step", step, flush=True)
    weights = take_best(losses)
    if step == 1:
        print("delivered", weights.tolist(), flush=True)
dist.destroy_process_group()
