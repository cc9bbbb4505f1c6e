"""Rank 0 alone reads the checkpoint, the others have nothing; each gets its shards from rank 0.

class: legal
verdict: none
ranks: 2 3
"""
import time

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 2))
for layer in (model[0], model[2], model):
    fully_shard(layer)

for step in range(2):
    print("step", step, flush=True)
    state = {}
    if rank == 0:
        time.sleep(0.5)  # it reads
        torch.manual_seed(7 + step)
        whole = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 2))
        state = whole.state_dict()
    set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    print("value", float(model(torch.ones(2 + rank, 6)).sum().detach()), flush=True)
    kept = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    print("value", sorted(kept), flush=True)
dist.barrier()
dist.destroy_process_group()
