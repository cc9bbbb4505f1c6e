"""Two threads of each rank train a model each on groups of their own, at their own pace, and the main thread waits for both.

class: legal
verdict: none
ranks: 2 3
"""
import threading
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
groups = [dist.new_group(list(range(size))) for _ in range(2)]
weights = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]


def train(i):
    for step in range(6):
        if (step + i + rank) % 3 == 0:
            time.sleep(0.05)
        gradient = weights[i] * (rank + 1)
        dist.all_reduce(gradient, group=groups[i])
        weights[i] -= 0.01 * gradient


for step in range(2):
    print("step", step, flush=True)
    threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
    for thread in threads if rank % 2 else reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    print("value", [weight.tolist() for weight in weights], flush=True)
dist.barrier()
dist.destroy_process_group()
