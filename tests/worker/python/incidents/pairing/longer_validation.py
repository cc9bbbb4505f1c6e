"""One rank validates a batch more, and gathers FSDP2's parameters while the others average losses (torchtitan 1618).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: embed mean
odd: 1
module: embed
"""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 6)
        self.block = torch.compile(torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU()), backend="aot_eager")
        self.head = torch.nn.Linear(6, 10)

    def forward(self, tokens):
        x = self.embed(tokens)  # [embed]
        return self.head(self.block(x))


def validate(batches):
    losses = []
    for step in range(batches):
        print("step", step, flush=True)
        tokens = (torch.arange(8) + step) % 10
        losses.append(torch.nn.functional.cross_entropy(model(tokens), tokens.roll(-1)))
        if step == 3:
            print("delivered", float(losses[-1]), flush=True)
    mean = torch.stack(losses).mean()
    print("step", "mean", flush=True)
    dist.all_reduce(mean)  # [mean]
    print("delivered", float(mean), flush=True)


model = Net()
for module in (model.embed, model.block, model.head):
    fully_shard(module)
fully_shard(model)
with torch.no_grad():
    validate(4 if rank == 1 else 3)
dist.destroy_process_group()
