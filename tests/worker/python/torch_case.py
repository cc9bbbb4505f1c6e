"""What the programs of torch_cases.py have in common."""

import json
import os
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import lockstep.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WATCHED = os.environ.get("LOCKSTEP_COORDINATION") != "off"
DEADLINE = 4.0
if "DEVICE" in os.environ:  # where the programs' tensors are
    torch.set_default_device(os.environ["DEVICE"])
compiles = 0


def tell(**what):
    print(json.dumps({"rank": RANK, **what}), flush=True)


def counting(graph, inputs):
    global compiles
    compiles += 1
    return graph.forward


def total(x):
    """All ranks together."""
    return functional.all_reduce(x.sum(), "sum", dist.group.WORLD)


def attempt(label, call, *args):
    """A call, and what came of it."""
    began = time.monotonic()
    try:
        seen = {"value": float(call(*args))}
    except Exception as error:
        seen = {"error": type(error).__name__, "text": str(error)}
    tell(call=label, seconds=round(time.monotonic() - began, 2), **seen)
    return "error" not in seen


def compiled(step, **options):
    return lockstep.torch.compile(step, **{"backend": counting, **options})
