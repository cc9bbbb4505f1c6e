"""Each rank plays episodes of other lengths by itself; then ranks tell each other how many steps they have, pad them and share them.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
policy = torch.tensor([0.3, -0.1])

for step in range(3):
    print("step", step, flush=True)
    rewards = []
    for turn in range(3 + 5 * ((rank + step) % size)):
        rewards.append(float(torch.sin(policy.sum() * turn + rank)))
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(rewards)]))
    longest = int(torch.cat(lengths).max())
    padded = torch.zeros(longest)
    padded[:len(rewards)] = torch.tensor(rewards)
    shared = torch.empty(size * longest)
    dist.all_gather_into_tensor(shared, padded)
    policy += 0.1 * torch.stack([part[:int(n)].mean() for part, n in zip(shared.view(size, longest), lengths)]).sum()
    print("value", policy.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
