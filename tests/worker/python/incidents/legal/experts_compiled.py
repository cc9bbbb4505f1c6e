"""A compiled layer sends a fixed number of tokens to each expert by all-to-alls, and back; each rank's expert is its own.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
capacity, width = 3, 4


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router = torch.nn.Linear(width, size)
        torch.manual_seed(1 + rank)
        self.expert = torch.nn.Linear(width, width)

    def forward(self, tokens):
        best = self.router(tokens).softmax(1).T.topk(capacity, 1)
        sent = tokens[best.indices.flatten()]
        taken = functional.all_to_all_single_autograd(sent, None, None, dist.group.WORLD)
        back = functional.all_to_all_single_autograd(self.expert(taken).relu(), None, None, dist.group.WORLD)
        return torch.zeros_like(tokens).index_add(0, best.indices.flatten(), back * best.values.reshape(-1, 1))


layer = Experts()
model = torch.compile(layer, backend="aot_eager")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(3):
    print("step", step, flush=True)
    torch.manual_seed(10 * step + rank)
    optimizer.zero_grad()
    loss = model(torch.randn(6, width)).square().mean()
    loss.backward()
    dist.all_reduce(layer.router.weight.grad)
    optimizer.step()
    print("value", float(loss), float(layer.expert.weight.sum()), flush=True)
dist.barrier()
dist.destroy_process_group()
