"""How often ranks compile until they need no new version, and seconds to the first result of inductor, with
lockstep and without. Two ranks (or RANKS) on this host, each with caches of its own as on a host of its own.

    PYTHONPATH=build/release/lib python tests/bench/python_torch_compiles.py [RANKS]
"""

import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

CALLS, SEEDS, ROUNDS = 50, 8, 3


def step(x, w):
    return torch.relu(x @ w).sum(1)


def stable(way):
    """Compiles of this rank, and the last call that needed one, per seed: batches of 1 to 8 rows of
    4 to 40 numbers, drawn by each rank."""
    out = []
    for seed in range(SEEDS):
        torch.compiler.reset()
        draw = random.Random(f"{seed} {dist.get_rank()}")
        compiles = [0]

        def backend(graph, inputs):
            compiles[0] += 1
            return graph.forward
        called = (lockstep.torch.compile(step, backend=backend, name=f"step {seed}", group=dist.group.WORLD) if way == "compile"
                  else torch.compile(step, backend=backend))
        last = 0
        for call in range(CALLS):
            before = compiles[0]
            rows, columns = draw.randint(1, 8), draw.randint(4, 40)
            called(torch.ones(rows, columns), torch.ones(columns, 8))
            if compiles[0] > before:
                last = call
        out.append([compiles[0], last])
    return out


def first(way):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True)
    began = time.perf_counter()
    called = lockstep.torch.compile(layer, group=dist.group.WORLD) if way == "compile" else torch.compile(layer)
    called(torch.ones(2, 9 + dist.get_rank(), 64)).sum().backward()
    return time.perf_counter() - began


def rank(what, way):
    dist.init_process_group("gloo")
    with lockstep.torch.watch() if way != "none" else contextlib.nullcontext():
        seen = {"stable": stable, "first": first}[what](way)
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, seen)
    if dist.get_rank() == 0:
        print("told " + json.dumps(every), flush=True)
    dist.destroy_process_group()


def job(ranks, what, way, caches):
    """What each rank told."""
    out = subprocess.run(["torchrun", "--nproc-per-node", str(ranks), __file__, "rank", what, way], text=True,
                         stdout=subprocess.PIPE, check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "CACHES": caches}).stdout
    return json.loads(next(line for line in out.splitlines() if line.startswith("told "))[5:])


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    out = {"ranks": ranks, "compiles": {}, "seconds to the first result": {}}
    for way in ("none", "watch", "compile"):
        with tempfile.TemporaryDirectory() as caches:
            seen = job(ranks, "stable", way, caches)
        out["compiles"][way] = {
            "per seed, of each rank": [[rank[seed][0] for rank in seen] for seed in range(SEEDS)],
            "median": statistics.median(rank[seed][0] for rank in seen for seed in range(SEEDS)),
            "last call with one, median": statistics.median(rank[seed][1] for rank in seen for seed in range(SEEDS))}
        print(way, out["compiles"][way], file=sys.stderr)
    seconds = {"none": [], "compile": [], "compile, kept from an earlier run": []}
    for _ in range(ROUNDS):
        for way in ("none", "compile"):
            with tempfile.TemporaryDirectory() as caches:
                seconds[way].append(max(job(ranks, "first", way, caches)))
                if way == "compile":
                    for folder in pathlib.Path(caches).glob("inductor*"):
                        subprocess.run(["rm", "-r", folder], check=True)
                    seconds["compile, kept from an earlier run"].append(max(job(ranks, "first", way, caches)))
        print(seconds, file=sys.stderr)
    out["seconds to the first result"] = {way: [round(statistics.median(all_), 1), *(round(s, 1) for s in sorted(all_))]
                                          for way, all_ in seconds.items()}
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        for name, folder in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("LOCKSTEP_CACHE_DIR", "lockstep")):
            os.environ[name] = os.path.join(os.environ["CACHES"], folder + os.environ["RANK"])
        import torch
        import torch.distributed as dist

        import lockstep.torch
        rank(*sys.argv[2:])
    else:
        main()
