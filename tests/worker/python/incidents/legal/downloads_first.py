"""Rank 0 prepares the data first: the others stand at a barrier before the preparation, and rank 0 comes to it afterwards.

class: legal
verdict: none
ranks: 2 3
"""
import contextlib
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


@contextlib.contextmanager
def first_on_rank_0():
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


def prepared(folder, name):
    path = Path(folder) / f"{name}.pt"
    if not path.exists():
        torch.manual_seed(len(name))
        torch.save(torch.randn(6, 3), path)
    return torch.load(path)


with tempfile.TemporaryDirectory() as own:
    folders = [None] * size
    dist.all_gather_object(folders, own)
    for step, name in enumerate(("train", "validation")):
        print("step", step, flush=True)
        with first_on_rank_0():
            data = prepared(folders[0], name)
        total = data[rank::size].sum(0)
        dist.all_reduce(total)
        print("value", total.tolist(), flush=True)
    dist.barrier()
dist.destroy_process_group()
