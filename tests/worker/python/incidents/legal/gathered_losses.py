"""A contrastive loss gathers the features of all ranks with gradients, which go back by a collective in the backward pass.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as functional

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
encoder = torch.nn.Linear(4, 3)

for step in range(3):
    print("step", step, flush=True)
    features = torch.nn.functional.normalize(encoder(torch.randn(4, 4)))
    everyone = torch.cat(functional.all_gather(features))
    labels = torch.arange(4) + 4 * rank
    loss = torch.nn.functional.cross_entropy(features @ everyone.t() / 0.1, labels)
    encoder.zero_grad()
    loss.backward()
    for parameter in encoder.parameters():
        dist.all_reduce(parameter.grad)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter -= 0.01 * parameter.grad / size
    print("value", float(loss.detach()), float(encoder.weight.sum().detach()), flush=True)
dist.barrier()
dist.destroy_process_group()
