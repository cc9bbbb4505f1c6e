#!/usr/bin/env python3
"""Compares the losses of the suite at tiny size, in f64, with those of PyTorch in losses.json, to a relative 1e-9.

usage: suite_test.py lockstep SUITE MPIRUN RANKS   lockstep_suite: losses, no fallback, number of compiles
       suite_test.py torch PYTHON MPIRUN           torch_suite.py on 1 and 2 ranks; 77 if PYTHON has no PyTorch
       suite_test.py write PYTHON                  writes losses.json
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LOSSES = HERE / "losses.json"
TOLERANCE = 1e-9
SKIPPED = 77
TINY = ["--size", "tiny", "--dtype", "f64", "--steps", "4"]
# Number of compiles on one rank, and on more. On one rank a size that differs between steps is a constant in the first
# entry and a symbol in the second; on more ranks it differs at the first call already.
COMPILES = {"experts": (2, 1), "transformer": (1, 1), "recommender": (2, 1), "lstm": (1, 1), "graph": (2, 1), "capacity": (1, 1),
            "tensor_parallel": (1, 1), "pipeline": (1, 1), "masks": (1, 1), "convolution": (1, 1)}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(lines) != 1:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[0])


def torch_run(python, workload, launcher=(), meet=()):
    return run([*launcher, python, HERE / "torch_suite.py", workload, *TINY, *meet])


def compare(where, workload, found, expected):
    if len(found) != len(expected):
        return [f"{where}: {workload}: {len(found)} losses, not {len(expected)}"]
    return [f"{where}: {workload}: the loss of step {step} is {a!r}, not {b!r}"
            for step, (a, b) in enumerate(zip(found, expected)) if not abs(a - b) <= TOLERANCE * abs(b)]


def of_lockstep(suite, mpirun, ranks, expected):
    flaws = []
    for workload, losses in expected.items():
        made = run([mpirun, "-t", "100", "-n", str(ranks), suite, workload, *TINY])
        flaws += compare(f"{ranks} ranks", workload, made["losses"], losses)
        if made["fallbacks"]:
            flaws.append(f"{ranks} ranks: {workload}: {made['fallbacks']} steps were interpreted")
        compiles, right = sum(made["compiled"]), COMPILES[workload][0 if ranks == 1 else 1]
        if compiles != right:
            flaws.append(f"{ranks} ranks: {workload}: {compiles} compiles, not {right}")
    return flaws


def of_torch(python, mpirun, expected):
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print(f"SKIPPED: PyTorch is not installed for {python}; its losses were not compared.", file=sys.stderr)
        sys.exit(SKIPPED)
    flaws = []
    for workload, losses in expected.items():
        flaws += compare("PyTorch", workload, torch_run(python, workload)["losses"], losses)
        with tempfile.TemporaryDirectory() as folder:
            made = torch_run(python, workload, [mpirun, "-t", "100", "-n", "2"], ["--meet", f"{folder}/meet"])
        flaws += compare("PyTorch on 2 ranks", workload, made["losses"], losses)
    return flaws


def main():
    what, program, *rest = sys.argv[1:]
    if what == "write":
        losses = {workload: torch_run(program, workload)["losses"] for workload in COMPILES}
        LOSSES.write_text(json.dumps(losses, indent=1) + "\n")
        return
    expected = json.loads(LOSSES.read_text())
    if set(expected) != set(COMPILES):
        sys.exit(f"losses.json has {', '.join(expected)}; the suite has {', '.join(COMPILES)}")
    flaws = of_lockstep(program, rest[0], int(rest[1]), expected) if what == "lockstep" else of_torch(program, rest[0], expected)
    if flaws:
        sys.exit("\n".join(flaws))
    print(f"{len(expected)} workloads have the losses of losses.json")


main()
