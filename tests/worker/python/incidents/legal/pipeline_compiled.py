"""Each rank compiles its own stage of a pipeline with the schedule 1F1B, so that no two graphs are alike.

class: legal
verdict: none
ranks: 2
error: refused
"""
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

try:
    from lockstep.torch import alone
except ImportError:
    from contextlib import nullcontext as alone

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
if rank == 0:
    layers = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 8), torch.nn.ReLU())
else:
    layers = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 16))


def loss_of(logits, tokens):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


stage = PipelineStage(torch.compile(layers, backend="aot_eager"), rank, size, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=loss_of)
tokens = torch.arange(32).reshape(8, 4) % 16
for step in range(2):
    print("step", step, flush=True)
    losses = []
    with alone():
        schedule.step(*([tokens] if rank == 0 else []), **({"target": tokens, "losses": losses} if rank == 1 else {}))
    print("value", [float(loss) for loss in losses], [float(p.grad.abs().sum()) for p in layers.parameters()], flush=True)
dist.destroy_process_group()
