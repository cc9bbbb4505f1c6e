"""Each rank is a stage of a pipeline with the schedule GPipe: it does other work than its neighbours, at other times.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
is_first, is_last = rank == 0, rank == size - 1
layers = torch.nn.Sequential(torch.nn.Linear(4 if is_first else 8, 1 if is_last else 8), torch.nn.Tanh())
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
stage = PipelineStage(layers, rank, size, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)

for step in range(3):
    print("step", step, flush=True)
    optimizer.zero_grad()
    losses = []
    schedule.step(*([torch.full((8, 4), 0.1 * (step + 1))] if is_first else []),
                  **({"target": torch.zeros(8, 1), "losses": losses} if is_last else {}))
    optimizer.step()
    print("value", [float(loss) for loss in losses], float(layers[0].weight.sum()), flush=True)
dist.destroy_process_group()
