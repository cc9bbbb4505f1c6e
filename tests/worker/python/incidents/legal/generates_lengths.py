"""Ranks generate texts of other lengths: who has finished skips the model, and asks with the others whether anyone goes on.

class: legal
verdict: none
ranks: 2 3
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
embedding, cell, head = torch.nn.Embedding(12, 8), torch.nn.GRUCell(8, 8), torch.nn.Linear(8, 11)
end = 11


@torch.no_grad()
def generate(token, longest):
    text, state = [], torch.zeros(1, 8)
    while True:
        goes_on = torch.tensor([int(token != end)])
        dist.all_reduce(goes_on, op=dist.ReduceOp.MAX)
        if not goes_on:
            return text
        if token != end:
            state = cell(embedding(torch.tensor([token])), state)
            token = int(head(state).argmax()) if len(text) < longest else end
            text.append(token)


for step in range(3):
    print("step", step, flush=True)
    text = generate(rank + step, 2 + (3 * rank + step) % 5)
    lengths = [torch.empty(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(text)]))
    padded = torch.full((int(max(lengths)),), end)
    padded[:len(text)] = torch.tensor(text)
    texts = [torch.empty_like(padded) for _ in range(size)]
    dist.all_gather(texts, padded)
    print("value", [other[:int(length)].tolist() for other, length in zip(texts, lengths)], flush=True)
dist.destroy_process_group()
