"""A mixture of experts in PyTorch, with one expert per rank: which rank a token goes to depends on the
data, so sizes sent and received differ between ranks and steps, and lines of text have different lengths.

    torchrun --nproc-per-node 2 examples/torch_moe.py [--steps N] [--backend NAME] [--device cuda] [--branch]
    mpirun -n 2 python3 examples/torch_moe.py

All ranks compile together, equally often. --branch puts a branch on a size in front of a collective: the
ranks then end with one error; with LOCKSTEP_COORDINATION=off they hang or compute wrong numbers."""

import argparse
import os
import pathlib
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives

import lockstep.torch

WIDTH, LETTERS = 32, 128
TEXT = pathlib.Path(__file__).read_text()


class Experts(torch.nn.Module):
    """Tokens go to the rank of their expert, through it, and back."""

    def __init__(self, ranks):
        super().__init__()
        self.ranks = ranks
        self.router = torch.nn.Linear(WIDTH, ranks)
        self.expert = torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.ReLU(),
                                          torch.nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).max(-1)
        order = chosen.argsort(stable=True)
        sent = torch.stack([(chosen == rank).sum() for rank in range(self.ranks)])
        received = collectives.all_to_all_single(sent, None, None, dist.group.WORLD)
        to, come = sent.tolist(), received.tolist()
        for count in to + come:
            torch._check(count >= 0)
        torch._check(sum(to) == x.size(0))
        rows = collectives.all_to_all_single_autograd(x[order], come, to, dist.group.WORLD)
        back = collectives.all_to_all_single_autograd(self.expert(rows), to, come, dist.group.WORLD)
        return x + torch.zeros_like(x).index_copy(0, order, back) * weights.unsqueeze(-1)


class Model(torch.nn.Module):
    """Predicts the next letter of a line."""

    def __init__(self, ranks, branch):
        super().__init__()
        self.branch = branch
        self.letters = torch.nn.Embedding(LETTERS, WIDTH)
        self.experts = Experts(ranks)
        self.out = torch.nn.Linear(WIDTH, LETTERS)

    def forward(self, line):
        x = self.experts(self.letters(line[:-1]))
        if self.branch and line.size(0) > 40:  # goes one way on some ranks only
            x = x + collectives.all_reduce(x.mean().detach(), "sum", dist.group.WORLD)
        return torch.nn.functional.cross_entropy(self.out(x), line[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--branch", action="store_true")
    given = parser.parse_args()
    if "OMPI_COMM_WORLD_RANK" in os.environ:  # started by mpirun, on one host
        os.environ.update(RANK=os.environ["OMPI_COMM_WORLD_RANK"], WORLD_SIZE=os.environ["OMPI_COMM_WORLD_SIZE"],
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29511"))
    torch.set_num_threads(1)
    gpus = torch.cuda.device_count() if given.device == "cuda" else 0
    if given.device == "cuda" and not gpus:
        parser.error("--device cuda: PyTorch finds no GPU here; leave it out to train on the CPU")
    ranks = int(os.environ["WORLD_SIZE"])
    dist.init_process_group("nccl" if gpus >= ranks else "gloo")  # NCCL wants a GPU for each rank
    rank = dist.get_rank()
    device = torch.device(given.device, rank % gpus) if gpus else torch.device("cpu")
    torch.manual_seed(rank)
    model = Model(ranks, given.branch).to(device)
    for name, parameter in model.named_parameters():
        if ".expert." not in name:
            dist.broadcast(parameter.data, 0)

    watch = lockstep.torch.watch()                                     # every torch.compile of the program
    step = lockstep.torch.compile(model, backend=given.backend)       # this one at agreed sizes
    adam = torch.optim.Adam(model.parameters(), 3e-3)
    lines = [line for line in TEXT.splitlines() if len(line) > 2]
    compiled, began = 0, time.monotonic()
    for number in range(given.steps):
        line = lines[(number * ranks + rank) % len(lines)]
        loss = step(torch.tensor([min(ord(letter), LETTERS - 1) for letter in line], device=device))
        adam.zero_grad()
        loss.backward()
        for name, parameter in model.named_parameters():
            if ".expert." not in name:
                dist.all_reduce(parameter.grad)
                parameter.grad /= ranks
        adam.step()
        compiled += hasattr(step, "agreed") and step.agreed.last.is_new
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and (number == 0 or (number + 1) % 20 == 0):
            print(f"step {number + 1}: loss {mean.item() / ranks:.3f}, {compiled} compiles on each of {ranks} ranks, "
                  f"{time.monotonic() - began:.0f} s", flush=True)
    watch.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
