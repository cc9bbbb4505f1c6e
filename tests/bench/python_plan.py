"""What reading the inputs of a Python call costs: plans of the extension module against the package's walk,
interleaved in one process, on PyTorch tensors. Microseconds: median and the middle four fifths.

    PYTHONPATH=build/release/lib python3 tests/bench/python_plan.py      # a Python that has torch
"""

import json
import statistics
import subprocess
import sys
import time

import lockstep
import torch
from lockstep.call_site import CallSite
from lockstep.observation import Observation

ROUNDS = 21


def once(function, calls):
    start = time.perf_counter_ns()
    for _ in range(calls):
        function()
    return (time.perf_counter_ns() - start) / calls / 1000


def told(times):
    times = sorted(times)
    cut = len(times) // 10
    return [round(x, 2) for x in (statistics.median(times), times[cut], times[-1 - cut])]


def reading(values, calls):
    site = CallSite()
    site.learn({"x": values}, Observation(x=values))
    assert site.read({"x": values}) is not None
    plan, walk = [], []
    for _ in range(ROUNDS):
        plan.append(once(lambda: site.read({"x": values}), calls))
        walk.append(once(lambda: Observation(x=values), max(calls // 20, 2)))
    ratios = [w / p for w, p in zip(walk, plan)]
    return {"plan_us": told(plan), "walk_us": told(walk), "walk_over_plan": told(ratios)}


def main():
    torch.set_num_threads(1)
    tensors = [torch.zeros(3 + i % 5, 4) for i in range(32)]
    parameters = [torch.nn.Parameter(torch.zeros(3 + i % 5, 4)) for i in range(1000)]
    step = lockstep.agreed(lambda x: None, lockstep.Group(alone=True), name="step")
    imports = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import lockstep"], check=True)
        imports.append(1e6 * (time.perf_counter() - bare - (bare - start)))
    print(json.dumps({
        "torch": torch.__version__, "32 tensors": reading(tensors, 1000),
        "1000 parameters": reading(parameters, 60),
        "agreed call, 32 tensors, 1 rank, us": told(once(lambda: step(tensors), 1000) for _ in range(ROUNDS)),
        "import lockstep, us": told(imports)}, indent=1))


if __name__ == "__main__":
    main()
