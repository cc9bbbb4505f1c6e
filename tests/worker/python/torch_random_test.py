"""Random models and inputs under lockstep.torch.compile(), on 2 and more ranks of real torch: every call has
eager's result on all ranks, or all ranks have the same error; all compile equally often; none waits for
another in vain. What eager gives is worked out in one process, all ranks' inputs known.

torch_random_test.py [--ranks N] [--seeds FIRST COUNT] [--backend NAME] [--unwatched]
--unwatched: torch.compile in its place, each seed in processes of its own; counts the seeds that go wrong."""

import argparse
import dataclasses
import datetime
import json
import multiprocessing
import os
import random
import socket
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

CALLS, WIDTH = 6, 4
LIMIT = 10  # seconds for a seed that is not watched


@dataclasses.dataclass
class Batch:
    rows: torch.Tensor
    scale: int
    more: dict


def over_the_wire(value, how):
    return functional.all_reduce(value, how, dist.group.WORLD)


class Model(torch.nn.Module):
    """What it does is drawn; `reduce` is its collective."""

    def __init__(self, seed, reduce):
        super().__init__()
        draw = random.Random(seed)
        self.reduce = reduce
        kinds = ["above", "divides", "integer", "alike", "flag", "scale", "mean", "linear", "fold", "join", "first",
                 "total", "empty"]
        self.pieces = [(draw.choice(kinds), draw.randint(1, 6), draw.choice(["sum", "max"]), draw.random() < 0.4)
                       for _ in range(draw.randint(3, 7))]
        torch.manual_seed(seed)
        self.weight = torch.nn.Parameter(torch.rand(WIDTH, WIDTH))

    def branch(self, x, how, collective):
        return x + self.reduce(x.sum().detach(), how) if collective else x * 1.5

    def forward(self, x, batch, number, flag=False):
        total = x.sum() * 0
        for kind, constant, how, collective in self.pieces:
            if kind == "above" and x.size(0) > constant:
                x = self.branch(x, how, collective)
            elif kind == "divides" and x.size(0) % (constant + 1) == 0:
                x = self.branch(x, how, collective)
            elif kind == "integer" and number > constant:
                x = self.branch(x, how, collective)
            elif kind == "alike" and x.size(0) == batch.rows.size(0):
                x = self.branch(x, how, collective)
            elif kind == "empty" and x.size(0) == 0:
                x = self.branch(x, how, collective)
            elif kind == "flag" and flag:
                x = self.branch(x, how, collective)
            elif kind == "scale":
                x = x * batch.scale + number
            elif kind == "mean":
                x = x / max(x.size(0), 1)
            elif kind == "linear":
                x = (x @ self.weight).sigmoid()
            elif kind == "fold":
                x = x.reshape(x.size(0) * WIDTH).reshape(x.size(0), WIDTH)
            elif kind == "join":
                x = torch.cat([x, batch.rows, batch.more["rows"]])
            elif kind == "first":
                x = x[: x.size(0) // 2 + 1]
            elif kind == "total":
                total = total + self.reduce(x.sum().detach(), how)
        return total + x.sum() + self.reduce(x.sum().detach(), "sum")


def inputs(seed, call, rank):
    """Drawn for the seed; some sequences are alike on all ranks, some not."""
    style = random.Random(seed * 31).choice(["alike", "sizes", "sizes", "all", "late"])
    apart = style in ("sizes", "all") or (style == "late" and call > 2)
    draw = random.Random(seed * 1009 + call * 17 + (rank + 1) * 7919 * apart)
    rows, other, third = (draw.choice([0, 1, 2, 3, 4, 5, 6, 8]) if apart else 2 + draw.randint(0, 5)
                          for _ in range(3))
    own = random.Random(seed * 1013 + call * 13 + rank * 7 * (style == "all"))
    x = torch.rand(rows, WIDTH, generator=torch.Generator().manual_seed(seed * 100 + call * 10 + rank))
    batch = Batch(torch.ones(other, WIDTH), own.randint(1, 3), {"rows": torch.ones(third, WIDTH)})
    return (x, batch, own.randint(0, 7)), {"flag": random.Random(seed + call).random() < 0.3}


class Needs(Exception):
    """A collective whose result is not known yet."""


def expected(seed, call, size):
    """Of each rank (result, gradient), by eager code; None: the ranks' collectives do not match."""
    known = []  # results of collectives, in order

    def run(rank):
        taken = 0

        def reduce(value, how):
            nonlocal taken
            taken += 1
            if taken > len(known):
                raise Needs(value.detach(), how)
            return known[taken - 1].clone()
        model = Model(seed, reduce)
        args, kwargs = inputs(seed, call, rank)
        loss = model(*args, **kwargs)
        if loss.requires_grad:
            loss.backward()
        return float(loss), float(model.weight.grad.sum()) if model.weight.grad is not None else 0.0

    while True:
        ends, wants = [], []
        for rank in range(size):
            try:
                ends.append(run(rank))
            except Needs as needs:
                wants.append(needs.args)
        if not wants:
            return ends
        if ends or len({(how, value.shape) for value, how in wants}) > 1:
            return None
        stacked = torch.stack([value for value, _ in wants])
        known.append(stacked.sum(0) if wants[0][1] == "sum" else stacked.max(0).values)


def run_rank(rank, size, place, seeds, backend, watched):
    """Tells, a line of JSON per call."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{place}/store", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=60 if watched else LIMIT / 2))
    out = open(f"{place}/{rank}", "w")
    if watched:
        import lockstep.torch
        watch = lockstep.torch.watch(deadline=60)
    for seed in seeds:
        torch.compiler.reset()
        compiles = 0

        def counting(graph, example):
            nonlocal compiles
            compiles += 1
            from torch._dynamo.backends.registry import lookup_backend
            return lookup_backend(backend)(graph, example)
        model = Model(seed, over_the_wire)
        compiled = (lockstep.torch.compile(model, backend=counting, name=f"model {seed}") if watched
                    else torch.compile(model, backend=counting))
        for call in range(CALLS):
            model.weight.grad = None
            args, kwargs = inputs(seed, call, rank)
            try:
                loss = compiled(*args, **kwargs)
                if loss.requires_grad:
                    loss.backward()
                seen = {"loss": float(loss), "gradient": 0.0 if model.weight.grad is None
                        else float(model.weight.grad.sum())}
            except Exception as error:
                seen = {"error": type(error).__name__, "text": str(error)[:300]}
            seen.update(seed=seed, call=call, rank=rank, compiles=compiles)
            if watched:
                seen["fallbacks"] = compiled.agreed.fallbacks
            print(json.dumps(seen), file=out, flush=True)
            if "error" in seen and not watched:
                os._exit(1)
    if watched:
        watch.close()
    out.close()
    os._exit(0)


def launch(size, seeds, backend, watched, limit):
    """What the ranks told, by seed and call; and whether all ended well by themselves."""
    with tempfile.TemporaryDirectory() as place:
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=run_rank, args=(rank, size, place, seeds, backend, watched))
                 for rank in range(size)]
        for process in ranks:
            process.start()
        until = time.monotonic() + limit
        for process in ranks:
            process.join(max(until - time.monotonic(), 0.1))
        well = all(process.exitcode == 0 for process in ranks)
        for process in ranks:
            process.kill()
            process.join()
        told = {}
        for rank in range(size):
            if os.path.exists(f"{place}/{rank}"):
                for line in open(f"{place}/{rank}"):
                    seen = json.loads(line)
                    told.setdefault((seen["seed"], seen["call"]), {})[rank] = seen
        return told, well


def judge(told, want, size, watched=True):
    """What is wrong with a call, or None. Not watched, ranks may compile as often as they like."""
    if len(told) < size:
        return f"only ranks {sorted(told)} ended it"
    errors = {(seen.get("error"), seen.get("text")) for seen in told.values()}
    if len(errors) > 1:
        return f"errors differ: {errors}"
    if watched and len({seen["compiles"] for seen in told.values()}) > 1:
        return f"compiles differ: {[seen['compiles'] for seen in told.values()]}"
    if "error" in told[0]:
        if told[0]["error"] in ("BranchDivergence", "GraphDivergence", "ConstantMismatch") or want is None:
            return None
        return f"an error where eager has none: {errors}"
    if want is None:
        return "results where the ranks' collectives do not match"
    for rank, (loss, gradient) in enumerate(want):
        for mine, theirs in ((told[rank]["loss"], loss), (told[rank]["gradient"], gradient)):
            if abs(mine - theirs) > 1e-4 * max(1.0, abs(theirs)):
                return f"rank {rank} has {mine} for {theirs}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 200))
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--unwatched", action="store_true")
    given = parser.parse_args()
    seeds = range(given.seeds[0], given.seeds[0] + given.seeds[1])
    bad = joint = refused = values = fallbacks = 0
    if given.unwatched:
        wrong = 0
        for seed in seeds:
            told, well = launch(given.ranks, [seed], given.backend, False, LIMIT)
            wrong += not well or any(judge(told.get((seed, call), {}), expected(seed, call, given.ranks), given.ranks,
                                           watched=False) for call in range(CALLS))
        print(f"without lockstep {wrong} of {len(seeds)} seeds hang, fail or differ")
        sys.exit(0 if 3 * wrong >= len(seeds) else 1)
    told, well = launch(given.ranks, list(seeds), given.backend, True, 60 + 30 * len(seeds))
    for seed in seeds:
        for call in range(CALLS):
            seen = told.get((seed, call), {})
            fault = judge(seen, expected(seed, call, given.ranks), given.ranks)
            if fault is not None:
                bad += 1
                print(f"seed {seed}, call {call}: {fault}; {Model(seed, None).pieces}")
            joint += bool(seen) and "error" in seen[0]
            refused += bool(seen) and "error" in seen[0] and expected(seed, call, given.ranks) is not None
            values += bool(seen) and "error" not in seen[0]
        fallbacks += seen.get(0, {}).get("fallbacks", 0)
    print(f"{len(seeds)} seeds on {given.ranks} ranks, {given.backend}: {values} calls with eager's result, {joint} "
          f"with one error on all ranks ({refused} of which eager has a result), {fallbacks} without a compiled version, {bad} wrong; all ended: {well}")
    # A branch that goes different ways is refused even where both ways have the same collectives.
    sys.exit(0 if well and bad == 0 and values > 3 * len(seeds) and 10 * refused < values else 1)


main()
