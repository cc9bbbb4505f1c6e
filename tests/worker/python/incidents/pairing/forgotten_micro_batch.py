"""Pipeline stages by hand: one sends a gradient less than its neighbour waits for, and goes on to average the loss.

class: pairing
verdict: Stuck
ranks: 2 3
lines: exchange loss
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
MICRO_BATCHES = 4
stage = torch.nn.Linear(4, 4)


def exchanged(operation, tensors, peer):
    """With the neighbour, if there is one."""
    if not 0 <= peer < size or not tensors:
        return tensors
    for work in dist.batch_isend_irecv([dist.P2POp(operation, tensor, peer) for tensor in tensors]):  # [exchange]
        work.wait()
    return tensors


for step in range(2):
    inputs = [torch.full((2, 4), 0.1 * (number + step)) for number in range(MICRO_BATCHES)]
    inputs = [each.requires_grad_() for each in exchanged(dist.irecv, inputs, rank - 1)]
    outputs = [stage(each) for each in inputs]
    exchanged(dist.isend, [each.detach() for each in outputs], rank + 1)
    gradients = exchanged(dist.irecv, [torch.ones(2, 4) for _ in outputs], rank + 1)
    torch.autograd.backward(outputs, gradients)
    print("step", step, flush=True)
    sent = inputs[:-1] if step == 1 and rank == 1 else inputs
    exchanged(dist.isend, [each.grad for each in sent], rank - 1)
    loss = outputs[-1].detach().mean()
    dist.all_reduce(loss)  # [loss]
    if step == 1:
        print("delivered", float(loss), flush=True)
dist.destroy_process_group()
