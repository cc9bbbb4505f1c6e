"""Programs in which ranks differ as they may (torch_legal_cases.py), and what people run on top of torch
(torch_packages_cases.py), on real torch: under watch(), under audit and with
compile() they give to the bit what they give without, end well, and print no more. Under policy "error" they give that, or are refused, as the
table says; with Watch.alone() none is.

torch_legal_test.py [CASE]..."""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time

from torch_ranks import HERE, free_port, run_cases

LIMIT = 150  # seconds
#: Ranks, and whether policy "error" lets the program be.
CASES = {"evaluation": (2, False), "join": (2, False), "micro_batches": (2, False), "gpipe": (2, False),
         "one_forward_one_backward": (2, False), "mesh_2d": (4, None), "stages_in_groups": (4, False), "sharded_blocks": (2, None), "other_threads": (2, None),
         "whole_steps": (2, None), "stances": (2, False), "without_a_batch": (2, False), "inner": (2, None), "jagged": (2, None),
         "deep_queue": (2, None), "loader_workers": (2, None), "odd_inputs": (2, None), "own_caches": (2, None),
         "roots": (2, True), "ends_apart": (2, None), "sends_first": (2, None),
         "accelerate": (2, None), "trainer": (2, None), "lightning": (2, None), "torchtitan": (2, None)}
PACKAGES = ("accelerate", "trainer", "lightning", "torchtitan")


def run(case, size, watch):
    """What came out on each rank, and what was said."""
    with tempfile.TemporaryDirectory() as caches:
        return run_with(case, size, watch, caches)


def run_with(case, size, watch, caches):
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(size), "WATCH": watch,
                   "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TORCHINDUCTOR_CACHE_DIR": caches}
    how = []
    if case == "torchtitan" and watch in ("recompile", "audit"):  # as it is
        how, environment = ["-m", "lockstep.torch"], {**environment, "WATCH": "", "LOCKSTEP_WATCH": watch}
    program = HERE / f"torch_{'packages' if case in PACKAGES else 'legal'}_cases.py"
    ranks = [subprocess.Popen([sys.executable, *how, program, case], env={**environment, "RANK": str(rank)},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(size)]
    texts, until = [], time.monotonic() + LIMIT
    for process in ranks:
        try:
            texts.append(process.communicate(timeout=max(until - time.monotonic(), 1))[0])
        except subprocess.TimeoutExpired:
            process.kill()
            texts.append(process.communicate()[0] + "\nTHE TEST'S TIME IS UP\n")
    told = [json.loads(line) for text in texts for line in text.splitlines() if line.startswith('{"rank"')]
    return [each["out"] for each in told], [process.returncode for process in ranks], "\n".join(texts)


def check(case):
    size, passes = CASES[case]
    want, codes, text = run(case, size, "")
    assert len(want) == size and not any(codes), f"bare: {text}"
    seconds = {}
    for watch in ("recompile", "audit", "compile", *(["error"] if passes is not None else []), *(["alone"] if passes is False else [])):
        began = time.monotonic()
        out, codes, text = run(case, size, watch)
        seconds[watch] = round(time.monotonic() - began, 1)
        if watch == "error" and not passes:
            assert any(codes) and any(word in text for word in ("MISMATCH", "DIVERGENCE", "STUCK")), f"{watch}: not refused: {text}"
            continue
        assert out == want and not any(codes), f"{watch}: {codes}: {out} for {want}: {text}"
        assert "lockstep" not in text and "GRAPH_DIVERGENCE" not in text, f"{watch} is not quiet: {text}"
    return seconds


run_cases({name: functools.partial(check, name) for name in CASES})
