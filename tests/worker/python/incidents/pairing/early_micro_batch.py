"""Each rank counts its micro-batches, and one has a count left from before it was resumed: it reduces while the others log.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: bucket loss
odd: 1
group: the group of ranks 0-
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
ACCUMULATE = 4
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def reduce_in_buckets(parameters, most=8):
    """Each bucket is reduced while the next one is filled."""
    works, bucket = [], []
    for parameter in reversed(parameters):
        bucket.append(parameter)
        if sum(each.numel() for each in bucket) >= most or parameter is parameters[0]:
            flat = torch.cat([each.grad.flatten() for each in bucket])
            works.append((dist.all_reduce(flat, async_op=True), flat, bucket))  # [bucket]
            bucket = []
    for work, flat, bucket in works:
        work.wait()
        for parameter, part in zip(bucket, flat.split([each.numel() for each in bucket])):
            parameter.grad.copy_(part.view_as(parameter) / size)


done = 1 if rank == 1 else 0
for micro in range(4):
    loss = model(torch.full((2, 4), 0.1 * (micro + rank))).square().mean()
    loss.backward()
    done += 1
    print("step", micro, flush=True)
    if done % ACCUMULATE == 0:
        reduce_in_buckets(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
        if micro == 2:
            print("delivered", float(model[0].weight.sum()), flush=True)
    logged = loss.detach().clone()
    dist.all_reduce(logged)  # [loss]
    if micro == 2:
        print("delivered", float(logged), flush=True)
dist.destroy_process_group()
