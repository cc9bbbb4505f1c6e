"""A sample of one rank cannot be decoded in the loader's process, while the others go on to reduce their gradients.

class: pairing
verdict: Gone
ranks: 2 3
lines: gradients
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Images(Dataset):
    def __len__(self):
        return 8 * dist.get_world_size()

    def __getitem__(self, index):
        if index == 4 * dist.get_world_size() + 1:
            raise OSError(f"image {index} is truncated")
        return torch.full((4,), 0.1 * index)


dist.init_process_group("gloo")
torch.manual_seed(0)
images = Images()
loader = DataLoader(images, batch_size=2, sampler=DistributedSampler(images, shuffle=False), num_workers=1,
                    multiprocessing_context="fork")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("step", 0, flush=True)
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    dist.all_reduce(gradients)  # [gradients]
    if step == 2:
        print("delivered", gradients.tolist(), flush=True)
    model.weight.grad.copy_(gradients[:4] / dist.get_world_size())
    model.bias.grad.copy_(gradients[4:] / dist.get_world_size())
    optimizer.step()
    print("step", step + 1, flush=True)
dist.destroy_process_group()
