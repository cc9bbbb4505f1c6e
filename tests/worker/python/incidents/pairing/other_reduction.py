"""The range of a compiled quantization is the largest over ranks, but by the settings of one rank it is the sum.

class: pairing
verdict: GraphDivergence or SourceMismatch
ranks: 2 3
lines: range
odd: 1
"""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank = dist.get_rank()
world = dist.group.WORLD


def quantize(x, how):
    peak = functional.all_reduce(x.abs().amax(0), how, world)  # [range]
    return (x / peak * 127).round()


quantize = torch.compile(quantize, backend="aot_eager")
for step in range(3):
    how = "sum" if step == 2 and rank == 1 else "max"
    print("step", step, flush=True)
    codes = quantize(torch.arange(1.0, 9.0).view(4, 2) + rank, how)
    if step == 2:
        print("delivered", codes.tolist(), flush=True)
dist.destroy_process_group()
