"""Each rank logs its metrics in the order of a set, and the mean of one is averaged with another (Lightning 21409).

class: meaning
verdict: told
ranks: 2 3
lines: loss accuracy
odd: 1
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def log_loss():
    value = torch.tensor(2.0)
    dist.all_reduce(value)  # [loss]
    return float(value)


def log_accuracy():
    value = torch.tensor(0.5)
    dist.all_reduce(value)  # [accuracy]
    return float(value)


metrics = [log_loss, log_accuracy]
for metric in metrics if rank != 1 else reversed(metrics):
    print("step", flush=True)
    print("value", metric(), flush=True)
dist.barrier()
dist.destroy_process_group()
