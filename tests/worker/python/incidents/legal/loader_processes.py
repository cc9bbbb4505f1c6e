"""Batches come from two worker processes of each rank, which one rank keeps for all epochs and the other starts anew.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Squares(Dataset):
    def __len__(self):
        return 18

    def __getitem__(self, at):
        return torch.full((4,), 0.1 * at), torch.tensor([float(at * at)]) / 100


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
data = Squares()
sampler = DistributedSampler(data, seed=5)
loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, multiprocessing_context="fork",
                    persistent_workers=rank == 0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        print("step", epoch, step, flush=True)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        print("value", len(x), float(loss), flush=True)
dist.destroy_process_group()
