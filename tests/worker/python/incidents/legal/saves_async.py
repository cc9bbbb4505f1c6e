"""A sharded model is saved by a thread on a group of its own while the training goes on, and loaded again afterwards.

class: legal
verdict: none
ranks: 2
"""
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saving = dist.new_group(list(range(size)))
folder = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(folder, src=0)


def train(step):
    print("step", step, flush=True)
    optimizer.zero_grad()
    loss = model(torch.full((2 + rank, 4), 0.1 * (step + rank))).square().mean()
    loss.backward()
    optimizer.step()
    print("value", float(loss), flush=True)


train(0)
saved = dcp.async_save(get_model_state_dict(model), checkpoint_id=folder[0], process_group=saving)
for step in range(1, 4):
    train(step)
saved.result()
state = get_model_state_dict(model)
dcp.load(state, checkpoint_id=folder[0])
set_model_state_dict(model, state)
train(1)
dist.barrier()
if rank == 0:
    shutil.rmtree(folder[0])
dist.destroy_process_group()
