"""Validation is due by each rank's own clock, so that a loss of training is averaged with one of validation.

class: meaning
verdict: told
ranks: 2 3
lines: training validation
odd: 1
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (size,))
model = torch.nn.Linear(4, 1)


def loss_of(factor):
    with torch.no_grad():
        return DTensor.from_local(model(torch.full((2, 4), factor)).square().mean(), mesh, [Partial("sum")])


def train(step):
    return float(loss_of(0.5 + step).full_tensor())  # [training]


def validate():
    return float(loss_of(3.0).full_tensor())  # [validation]


validated = 0
for step in range(4):
    print("step", step, flush=True)
    minutes = 5 * step + (5 if rank == 1 else 0)
    if minutes >= 10 and not validated:
        print("value", validate(), flush=True)
        validated += 1
    print("value", train(step), flush=True)
dist.barrier()
dist.destroy_process_group()
