"""A pipeline's second stage is set up for micro-batches of twice the rows that the first stage sends it (FlagScale 459).

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: first later
odd: 1
"""
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
rows = 4 if rank == 1 else 2
module = torch.nn.Linear(4, 4)
given, made = torch.zeros(rows, 4, requires_grad=rank > 0), torch.zeros(rows, 4, requires_grad=True)
stage = PipelineStage(module, rank, size, torch.device("cpu"), given, made, output_grads=made, input_grads=given)
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda out, target: (out - target).square().mean())
losses = []
print("step", 0, flush=True)
if rank == 0:
    schedule.step(torch.ones(2 * rows, 4))  # [first]
else:
    is_last = rank == size - 1
    schedule.step(**({"target": torch.zeros(2 * rows, 4), "losses": losses} if is_last else {}))  # [later]
print("delivered", [float(loss) for loss in losses], flush=True)
dist.destroy_process_group()
