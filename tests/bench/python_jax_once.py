"""What lockstep.jax.watch(compile_once=True) saves: a training step of many layers is compiled by each of several JAX
processes, or by one, whose bytes the others load. Both in turn in one run, each time with a step that no process has
compiled. Seconds until the slowest process can run it, and processor seconds of all processes together: medians with 95 %
intervals.

    PYTHONPATH=build/release/lib PYTHON tests/bench/python_jax_once.py [--ranks N] [--rounds N] [--layers N] [--out FILE]
"""

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time

WAYS = ("each", "once")


def process(given):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import multihost_utils
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ['PORT']}", given.ranks, int(os.environ["RANK"]))
    import lockstep.jax
    mesh = Mesh(np.array(jax.devices()), ("x",))
    batch = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.ones((2, 64), np.float32))
    weights = multihost_utils.host_local_array_to_global_array(np.eye(64, dtype=np.float32), mesh, P())
    seen = {way: [] for way in WAYS}
    for number in range(given.rounds + 1):
        for way in WAYS if number % 2 else reversed(WAYS):
            constant = number * len(WAYS) + WAYS.index(way) + 1

            def step(w, x):
                for layer in range(given.layers):
                    x = jnp.tanh(x @ w / constant) * (layer + 1)
                return jnp.mean(x)
            with lockstep.jax.watch(compile_once=way == "once") as watch:
                lowered = jax.jit(jax.value_and_grad(step)).lower(weights, batch)
                multihost_utils.sync_global_devices(f"{number} {way}")
                began, used = time.perf_counter(), time.process_time()
                lowered.compile()
                times = time.perf_counter() - began, time.process_time() - used
                assert watch.loaded <= (way == "once") * 8, watch.loaded
                assert way == "each" or watch.loaded > 0 or os.environ["RANK"] == "0"
                multihost_utils.sync_global_devices(f"{number} {way} end")
            if number:  # the first round warms up
                seen[way].append(times)
    print("told " + json.dumps({"jax": jax.__version__, "seen": seen}), flush=True)


def job(given):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "RANK": str(rank), "PORT": port}) for rank in range(given.ranks)]
    ends = [rank.communicate() for rank in ranks]
    for rank, (_, error) in zip(ranks, ends):
        if rank.returncode != 0:
            sys.exit(f"python_jax_once.py: a process has failed:\n{error}")
    return [json.loads(line[5:]) for out, _ in ends for line in out.splitlines() if line.startswith("told ")]


def interval(values):
    values, half = sorted(values), 0.98 * math.sqrt(len(values))
    at = lambda place: values[min(max(int(place), 0), len(values) - 1)]  # noqa: E731
    return [round(x, 3) for x in (statistics.median(values), at(len(values) / 2 - half), at(len(values) / 2 + half))]


def main(given):
    found = job(given)
    rounds = {way: list(zip(*[told["seen"][way] for told in found])) for way in WAYS}
    seconds = {way: [max(s for s, _ in each) for each in rounds[way]] for way in WAYS}
    processor = {way: [sum(p for _, p in each) for each in rounds[way]] for way in WAYS}
    result = {"jax": found[0]["jax"], "ranks": given.ranks, "layers": given.layers, "load": os.getloadavg()[0]}
    for name, times in (("seconds", seconds), ("processor_seconds", processor)):
        result[name] = {way: interval(times[way]) for way in WAYS}
        result[name]["each_over_once"] = interval([a / b for a, b in zip(times["each"], times["once"])])
        print(f"n={given.ranks} {name:18} " + "  ".join(f"{way} {m:.2f} [{low:.2f}, {high:.2f}]" for way, (m, low, high) in result[name].items()))
    if given.out:
        with open(given.out, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("--ranks", 2), ("--rounds", 11), ("--layers", 40)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    process(arguments) if "RANK" in os.environ else main(arguments)
