"""What lockstep.jax.watch() costs a JAX job of several processes, interleaved in one run: bare, watched, and watched with
calls=True, in turn, then in the opposite order. The watch is closed in between. Two modules: a sum over processes, and a
training step of a perceptron with Adam; each is compiled anew (its constants are new) by one process after another, run
once by all, then called from JAX's cache. JAX's persistent cache is off. "Processor": time of the calling thread.

A time is the slowest process's. What the watch adds is told as the difference to bare in the same round, and as the time
within its own functions, which other work on the machine blurs less: a compile is judged by that. Medians with 95 %
intervals from order statistics.

    PYTHONPATH=build/release/lib build/jax/bin/python tests/bench/python_jax.py [--ranks N] [--rounds N] [--calls N] [--out JSON]
"""

import argparse
import contextlib
import functools
import gc
import importlib.util
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time

WAYS = ("bare", "watched", "calls=True")
MODULES = ("sum", "training step")
LAYERS, WIDTH, ROWS = 6, 64, 16  # of the perceptron; rows of a process
#: Measurements, with the unit of the table and how many microseconds it has.
UNITS = {"compile": ("ms", 1000), "first run": ("us", 1), "cached call": ("us", 1), "cached call, processor": ("us", 1)}
#: Microseconds that the watch may add. (To a cached call: nothing, so that the interval has 0 in it.)
TARGETS = {("compile", "watched"): 1000.0, ("cached call", "watched"): 0.0, ("cached call, processor", "watched"): 0.0}


# A process of the job.

class Timed:
    """Seconds in a function of JAX, in calls of the current block; with a watch, also in its wrapper around it."""

    def __init__(self, owner, name):
        self._owner, self._name = owner, name
        self.inner = self.outer = 0.0
        self._wrap("inner")

    def _wrap(self, which):
        original = getattr(self._owner, self._name)

        @functools.wraps(original)
        def timed(*args, **kwargs):
            begin = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                setattr(self, which, getattr(self, which) + time.perf_counter() - begin)
        setattr(self._owner, self._name, timed)

    def around_watch(self):
        """To be called under a watch; its end takes this wrapper away with its own."""
        self._wrap("outer")

    def take(self):
        """Returns the seconds that the watch has taken since the last call."""
        spent, self.inner, self.outer = max(self.outer - self.inner, 0.0), 0.0, 0.0
        return spent


class Job:
    """The modules of one process, and its inputs."""

    def __init__(self, rank, ranks, port):
        import jax
        import numpy as np
        from jax.sharding import Mesh, NamedSharding
        from jax.sharding import PartitionSpec as P
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.config.update("jax_enable_compilation_cache", False)
        jax.distributed.initialize(f"127.0.0.1:{port}", ranks, rank)
        self._jax, self._number, self._barriers, self._rank, self._ranks = jax, 0, 0, rank, ranks
        mesh = Mesh(np.array(jax.devices()), ("x",))
        draw = np.random.default_rng(0)
        self._rows = jax.make_array_from_process_local_data(
            NamedSharding(mesh, P("x")), draw.normal(size=(ROWS, WIDTH)).astype(np.float32))
        layers = [(draw.normal(size=(WIDTH, WIDTH)) / 8).astype(np.float32) for _ in range(LAYERS)]
        zeros = [np.zeros_like(layer) for layer in layers]
        self._state = jax.device_put((layers, zeros, zeros), NamedSharding(mesh, P()))

    def together(self):
        from jax._src import distributed
        self._barriers += 1
        distributed.global_state.client.wait_at_barrier(f"bench {self._barriers}", 60_000)

    def turns(self):
        """One after another, so that each compile has the machine's cores as on a host of its own; comes once."""
        for turn in range(self._ranks):
            self.together()
            if turn == self._rank:
                yield turn

    def module(self, name):
        """Returns a jitted function that no process has compiled before, and its arguments."""
        self._number += 1  # the same on all processes
        scale = 1 + self._number / 4096
        return (self._sum if name == "sum" else self._training_step)(scale)

    def _sum(self, scale):
        def summed(x):
            return (x * scale).sum()
        return self._jax.jit(summed), (self._rows,)

    def _training_step(self, scale):
        jax, jnp = self._jax, self._jax.numpy

        def loss_of(layers, x):
            for layer in layers:
                x = jnp.tanh(x @ layer) * scale
            return jnp.mean(x ** 2)

        def step(state, x):
            layers, means, squares = state
            loss, gradients = jax.value_and_grad(loss_of)(layers, x)
            means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients)]
            squares = [0.99 * s + 0.01 * g * g for s, g in zip(squares, gradients)]
            layers = [w - 1e-3 * m / (jnp.sqrt(s) + 1e-6) for w, m, s in zip(layers, means, squares)]
            return loss, (layers, means, squares)
        return jax.jit(step), (self._state, self._rows)

    def lines(self, name):
        function, arguments = self.module(name)
        return function.lower(*arguments).as_text().count("\n")


def block(job, name, calls, compiles, runs):
    """Seconds of each measurement, and of the watch's own functions in it."""
    wait = job._jax.block_until_ready
    function, arguments = job.module(name)
    lowered = function.lower(*arguments)
    compiles.take(), runs.take()
    for _ in job.turns():
        begin = time.perf_counter()
        lowered.compile()
        times = {"compile": [time.perf_counter() - begin, compiles.take()]}
    job.together()
    begin = time.perf_counter()
    wait(function(*arguments))  # finds what lowered.compile() has made
    times["first run"] = [time.perf_counter() - begin, runs.take()]
    assert compiles.inner == 0, "the first run has compiled once more"
    for _ in range(10):
        wait(function(*arguments))
    job.together()
    runs.take()
    each, busy = [], time.thread_time()
    for _ in range(calls):
        begin = time.perf_counter()
        wait(function(*arguments))
        each.append(time.perf_counter() - begin)
    times["cached call, processor"] = [(time.thread_time() - busy) / calls, 0.0]
    times["cached call"] = [statistics.median(each), runs.take() / calls]
    return times


def process(given):
    import lockstep.jax
    job = Job(int(os.environ["RANK"]), given.ranks, os.environ["PORT"])
    from jax._src import compiler
    from jax._src.interpreters import pxla
    compiles, runs = Timed(compiler, "compile_or_get_cached"), Timed(pxla.ExecuteReplicated, "__call__")
    seen = {}
    gc.disable()
    for number in range(given.rounds + 1):
        for way in WAYS if number % 2 else reversed(WAYS):
            gc.collect()
            with contextlib.nullcontext() if way == "bare" else lockstep.jax.watch(calls=way == "calls=True") as watch:
                if way != "bare":
                    compiles.around_watch(), runs.around_watch()
                block(job, "sum", 1, compiles, runs)  # posts this process's settings, which a watch posts once
                for name in MODULES:
                    for what, times in block(job, name, given.calls, compiles, runs).items():
                        if number:  # the first round warms up
                            seen.setdefault(f"{name}/{what}/{way}", []).append(times)
            runs_seen = {"watched": 1 + len(MODULES), "calls=True": 12 + len(MODULES) * (11 + given.calls)}
            assert way == "bare" or watch.compared == runs_seen[way], watch.summary()
    print("told " + json.dumps({"jax": job._jax.__version__, "lines": {name: job.lines(name) for name in MODULES}, "seen": seen}),
          flush=True)


# The job, and what it told.

def told(values):
    """Median and 95 % interval."""
    values = sorted(values)
    n = len(values)
    cut = max(int(n / 2 - 0.98 * math.sqrt(n)), 0)
    return statistics.median(values), values[cut], values[-1 - cut]


def job(given):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "RANK": str(rank), "PORT": port, "OMP_NUM_THREADS": "1"})
             for rank in range(given.ranks)]
    found = []
    for rank in ranks:
        out, error = rank.communicate()
        if rank.returncode != 0:
            for each in ranks:
                each.kill()
            sys.exit(f"python_jax.py: a process has failed:\n{error}")
        found += [json.loads(line[5:]) for line in out.splitlines() if line.startswith("told ")]
    return found


def verdict(added, target):
    """Met or missed if the whole interval is on one side of the target, else open; a target of nothing is met by an interval
    that has 0 in it."""
    if target is None:
        return ""
    return "MISSED" if added[1] > target else "met" if added[2] <= target or target == 0 else "open"


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(": ")[2].strip() for line in file if line.startswith("model name")), "unknown")
    return {"cpu": model, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def text(values, digits):
    return f"{values[0]:.{digits}f} [{values[1]:.{digits}f}, {values[2]:.{digits}f}]"


def compared(name, what, way, slowest):
    """Prints a row, and returns its two entries in the JSON."""
    unit, scale = UNITS[what]
    bare = [1e6 * total for total, _ in slowest[f"{name}/{what}/bare"]]
    totals, own = zip(*([1e6 * part for part in times] for times in slowest[f"{name}/{what}/{way}"]))
    added, ratio = told([a - b for a, b in zip(totals, bare)]), told([a / b for a, b in zip(totals, bare)])
    own, target = told(own), TARGETS.get((what, way))

    def shown(values):
        return text([value / scale for value in values], 2 if scale > 1 else 1)
    judged = verdict(own if target and own[0] else added, target)  # a compile takes more or less time by more than the target
    print(f"| {name}: {what}, {way} | {shown(told(bare))} {unit} | {shown(told(totals))} {unit} | {shown(added)} | {text(ratio, 3)} "
          f"| {shown(own) if own[0] else ''} | {'' if target is None else f'{target / scale:g}'} | {judged} |")
    entry = {"run_type": "aggregate", "aggregate_name": "median", "iterations": len(bare), "time_unit": "us"}
    ours = {"name": f"{name}/{what}/{way}/ours", **entry, "real_time": statistics.median(totals),
            "ratio": ratio[0], "ratio_low": ratio[1], "ratio_high": ratio[2]}
    for key, values in (("added", added), ("own", own)):
        ours.update({f"{key}_us": values[0], f"{key}_low_us": values[1], f"{key}_high_us": values[2]})
    if target is not None:
        ours["added_target_us"] = target
    return [{"name": f"{name}/{what}/{way}/floor", **entry, "real_time": statistics.median(bare)}, ours]


def main(given):
    context = {**machine(), "executable": "python_jax.py", "ranks": given.ranks, "calls": given.calls}
    found = job(given)
    slowest = {key: [[max(parts) for parts in zip(*times)] for times in zip(*(each["seen"][key] for each in found))]
               for key in found[0]["seen"]}
    context.update(jax=found[0]["jax"], rounds=given.rounds, lines=found[0]["lines"])
    print(f"JAX {context['jax']}, {given.ranks} processes, {context['cpu']}, {context['cores']} cores, load {context['load']:.1f} when it "
          f"began; {given.rounds} rounds; lines of the modules: {context['lines']}\n")
    print("| what | bare | with the watch | it adds | ratio | of its own functions | target | |\n|" + "---|" * 8)
    benchmarks = []
    for name in MODULES:
        for what in UNITS:
            for way in WAYS[1:]:
                benchmarks += compared(name, what, way, slowest)
    if given.out:
        with open(given.out, "w") as file:
            json.dump({"context": context, "benchmarks": benchmarks}, file, indent=1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--out", metavar="JSON")
    return parser.parse_args()


if __name__ == "__main__":
    if importlib.util.find_spec("jax") is None:
        sys.exit(f"python_jax.py: JAX is not installed for {sys.executable}; nothing was measured")
    if "RANK" in os.environ:
        process(arguments())
    else:
        main(arguments())
