"""Each rank holds two stages of a pipeline, and micro-batches go round the ranks twice, forwards and backwards in turn.

class: legal
verdict: none
ranks: 2
"""
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import ScheduleInterleaved1F1B

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
layers = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(2 * size)]
mine = [rank, rank + size]
stages = [PipelineStage(layers[i], i, 2 * size, torch.device("cpu")) for i in mine]
schedule = ScheduleInterleaved1F1B(stages, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD([p for i in mine for p in layers[i].parameters()], lr=0.1)

for step in range(3):
    print("step", step, flush=True)
    optimizer.zero_grad()
    losses = []
    if rank == 0:
        schedule.step(torch.full((8, 4), 0.1 * (step + 1)))
    else:
        schedule.step(target=torch.ones(8, 4), losses=losses)
    optimizer.step()
    print("value", [float(loss) for loss in losses], float(next(layers[rank].parameters()).sum()), flush=True)
dist.barrier()
dist.destroy_process_group()
