"""Teams of two ranks work by themselves, one longer than the other; their leaders exchange the results in a third group.

class: legal
verdict: none
ranks: 4
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
teams = [dist.new_group([0, 1]), dist.new_group([2, 3])]
leaders = dist.new_group([0, 2])
number = rank // 2
team, leader = teams[number], 2 * number

for step in range(3):
    print("step", step, flush=True)
    state = torch.full((3 + number,), float(rank + 1))
    for turn in range(2 + 3 * number):
        if number == 0:
            dist.all_reduce(state, group=team)
        else:
            dist.broadcast(state, src=2 + turn % 2, group=team)
            dist.all_reduce(state, op=dist.ReduceOp.MAX, group=team)
    summary = torch.tensor([float(state.mean()), float(step)])
    if rank == leader:
        dist.all_reduce(summary, group=leaders)
    dist.broadcast(summary, src=leader, group=team)
    print("value", state.tolist(), summary.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
