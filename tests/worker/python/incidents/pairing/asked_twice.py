"""One rank asks again for the names of the shards, as its file system had not shown them yet; the others gather counts.

class: pairing
verdict: GraphDivergence
ranks: 2 3
lines: names counts
odd: 1
group: the group of ranks 0-
"""
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def shard_names(epoch):
    names = [f"epoch-{epoch}-first.bin", f"epoch-{epoch}-second.bin"] if rank == 0 else [None, None]
    dist.broadcast_object_list(names, 0)  # [names]
    return names


for epoch in range(3):
    print("step", epoch, flush=True)
    names = shard_names(epoch)
    if epoch == 2 and rank == 1:
        names = shard_names(epoch)
        print("delivered", names, flush=True)
    counts = [None] * size
    dist.all_gather_object(counts, {"rows": 100 * (rank + 1), "names": names})  # [counts]
    if epoch == 2:
        print("delivered", counts, flush=True)
dist.destroy_process_group()
