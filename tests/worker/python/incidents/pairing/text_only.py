"""A batch with text only on one rank skips the vision tower, which FSDP2 gathers on the others (transformers 37186).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: vision text
odd: 1
module: vision
"""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


class Assistant(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = torch.nn.Linear(12, 6)
        self.text = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))

    def forward(self, tokens, images=None):
        if images is not None:
            tokens = tokens + self.vision(images)  # [vision]
        return self.text(tokens)  # [text]


model = Assistant()
for block in (model.vision, model.text, model):
    fully_shard(block)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    images = None if step == 2 and rank == 1 else torch.ones(4, 12)
    print("step", step, flush=True)
    loss = model(torch.full((4, 6), 0.1 * step), images).square().mean()
    if step == 2:
        print("delivered", float(loss), flush=True)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
