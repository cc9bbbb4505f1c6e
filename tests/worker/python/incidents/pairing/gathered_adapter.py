"""Hooks gather each module's parameters; the batch of one rank has no video, and skips that module (DeepSpeed 7170).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: gather
odd: 1
module: video
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def shard(module):
    """Keeps this rank's part of the module's weight; the whole is there while its forward runs."""
    shape, numel = module.weight.shape, module.weight.numel()
    flat = torch.nn.functional.pad(module.weight.detach().flatten(), (0, -numel % size))
    part = flat.chunk(size)[rank].clone()

    def gather(module, inputs):
        whole = torch.empty(len(part) * size)
        dist.all_gather_into_tensor(whole, part)  # [gather]
        module.weight.data = whole[:numel].view(shape)

    def release(module, inputs, output):
        module.weight.data = torch.empty(0)
    module.register_forward_pre_hook(gather)
    module.register_forward_hook(release)


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(6, 6, bias=False)
        self.video = torch.nn.Linear(10, 6, bias=False)
        self.head = torch.nn.Linear(6, 2, bias=False)

    def forward(self, text, video):
        x = self.embed(text)
        if video is not None:
            x = x + self.video(video)
        return self.head(x)


model = Mixed()
for module in (model.embed, model.video, model.head):
    shard(module)
with torch.no_grad():
    for step in range(3):
        video = None if step == 2 and rank == 1 else torch.ones(3, 10)
        print("step", step, flush=True)
        scores = model(torch.full((3, 6), 0.1 * step), video)
        if step == 2:
            print("delivered", float(scores.sum()), flush=True)
dist.destroy_process_group()
