"""Each rank stops when its own loss no longer falls; one gathers results while the others reduce gradients.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: average results
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
pending = []


def average(parameter):
    pending.append(dist.all_reduce(parameter.grad.div_(size), async_op=True))  # [average]


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(average)
least = float("inf")
for step in range(4):
    optimizer.zero_grad()
    target = 5.0 if step == 2 and rank == 1 else 1.0
    loss = (model(torch.ones(3, 4)) - target).square().mean()
    if loss.item() > least:
        break
    least = loss.item()
    print("step", step, flush=True)
    loss.backward()
    while pending:
        pending.pop().wait()
    if step >= 2:
        print("delivered", float(model.weight.grad.sum()), flush=True)
    optimizer.step()
results = [None] * size
print("step", "results", flush=True)
dist.all_gather_object(results, least)  # [results]
print("delivered", results, flush=True)
dist.destroy_process_group()
