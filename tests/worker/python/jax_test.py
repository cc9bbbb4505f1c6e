"""Programs of JAX users on several processes (jax_cases.py). Wrong ones: under watch() the ranks report what is wrong;
without it they hang, fail, or give a wrong number. Right ones: under watch(), with calls=True and under "audit" they
give to the bit what they give without, end well, and print no more.

    PYTHONPATH=build/release/lib python tests/worker/python/jax_test.py [--without flax] [CASE...]

scripts/test --long jax runs it. Without flax, the program that needs it is left out."""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from torch_ranks import free_port, run_cases

PROGRAM = pathlib.Path(__file__).resolve().parent / "jax_cases.py"
LIMIT, HANGS = 90, 12  # seconds: most of a run; after which a run without watch() counts as hanging
PLACE = r"jax_cases.py:\d+"
#: Of a wrong program: processes, the code of the report ("": JAX ends the rank), and what each rank must report ("{0}" is a place in the program).
WRONG = {
    "constant": (2, "GRAPH_DIVERGENCE", "jit_summed", r"first operation that differs: rank 0: .*constant dense<2.0*e\+00>.* at {0}; rank 1: .*constant dense<3.0*e\+00>"),
    "static_argument": (2, "GRAPH_DIVERGENCE", "the static argument layers is 2 on rank 0 and 3 on rank 1", "first operation that differs"),
    "uneven_batch": (2, "GRAPH_DIVERGENCE", r"rank 1 has run jit_train at {0} to its end.*: rank 0 has not compiled it.*x is f32\[2, 4\] on rank 1 and f32\[4, 4\] on rank 0"),
    "branch_in_python": (2, "GRAPH_DIVERGENCE", r"rank 0: jit_grow .*{0}; rank 1: jit_shrink .*{0}"),
    "cond_on_process": (2, "GRAPH_DIVERGENCE", "jit_branch", "first operation that differs: rank 0: .*constant dense<.*> : .* at {0}"),
    "set_order": (2, "GRAPH_DIVERGENCE", r"first operation that differs: rank 0: .*constant dense<\d.*> .*{0}"),
    "x64_on_one": (2, "GRAPH_DIVERGENCE", "jax_enable_x64 is False on rank 0 and True on rank 1"),
    "precision_on_one": (2, "GRAPH_DIVERGENCE", "jax_default_matmul_precision is None on rank 0 and highest on rank 1", "DEFAULT.*HIGHEST"),
    "dtype_on_one": (2, "GRAPH_DIVERGENCE", r"f32\[4, 4\] on rank 0 and f16\[4, 4\] on rank 1"),
    "donated_on_one": (2, "GRAPH_DIVERGENCE", "w is donated on rank 0 only"),
    "sharding_on_one": (2, "GRAPH_DIVERGENCE", "result.*sharding"),
    "device_order": (2, "GRAPH_DIVERGENCE", "the order of devices is 0 2048 on rank 0 and 2048 0 on rank 1"),
    "compiler_option": (2, "GRAPH_DIVERGENCE", "the compiler option xla_cpu_enable_fast_math is True on rank 0 and False on rank 1"),
    "large_constant": (2, "GRAPH_DIVERGENCE", "first operation that differs: rank 0: .*constant dense<"),
    "evaluates_alone": (2, "STUCK", r"no rank can go on: rank 0 waits in XLA at {0}; rank 1 waits in XLA at {0}"),
    "new_order": (2, "GRAPH_DIVERGENCE", r"rank 0: jit_first .*{0}; rank 1: jit_second .*{0}"),
    "fewer_batches": (2, "STUCK", r"rank 0 waits in XLA at {0}; rank 1 has finished"),
    "one_more_of_two": (2, "STUCK", r"rank 0 waits in XLA at {0}; rank 1 has finished"),
    "exception": (2, "GONE", "rank 1 has failed: ValueError: sample 17 has no label"),
    "fails_apart": (2, "", "lockstep.jax: rank 0 has failed: ValueError: sample 17 has no label"),
    "killed": (2, "RANK_LOST", "rank 1 has ended without a report"),
    "stopped": (2, "STUCK", "rank 1 is stopped for 5 s, and rank 0 waits in XLA at {0}"),
    "hangs_elsewhere": (2, "STUCK", "rank 1 does not move on at {0} for 5 s, and rank 0 waits in XLA at {0}"),
    "restored_on_one": (2, "STUCK", "rank 1 waits in XLA at {0}"),
    "restored_schedule": (2, "GRAPH_DIVERGENCE", "jit_step", "first operation that differs: rank 0: .*constant dense"),
    "half_of_four": (4, "GRAPH_DIVERGENCE", "computations of processes 2-3", "rank 2: .*rank 3: "),
    "known_order": (2, "GRAPH_DIVERGENCE", r"operation \d+ of the computations of processes 0-1", "{0}.*{0}"),
}
#: Programs that are seen to be wrong with calls=True only.
CALLS = ("known_order",)
#: Of a wrong program: the ranks that must end by the report, where others end otherwise (killed, stopped, by their own
#: exception, by JAX) or may go on.
ENDS = {"stopped": [0], "hangs_elsewhere": [0], "killed": [0], "exception": [0], "fails_apart": [1], "half_of_four": [2, 3]}
CODES = {"GRAPH_DIVERGENCE": 3, "GONE": 3, "STUCK": 4, "RANK_LOST": 5}
RIGHT = {"trains": (2, 4), "flax_optax": (2,), "local_work": (2,), "evaluates_locally": (2,), "compiles_alone": (2,),
         "ahead_of_time": (2,), "forgets": (2,), "cache_on_one": (2,), "logs_on_one": (2,), "other_files": (2,),
         "slow_input": (2,), "slow_callback": (2,), "callback_together": (2,), "ends_apart": (2,), "late_last": (2,), "caught": (2,), "pairs": (4,),
         "loader": (2,), "hosts": (2, 4), "barrier_late": (2,), "elementwise_alone": (2,), "long_step": (2,), "scans": (2,),
         "devices_2": (2,), "mesh_2d": (2,), "random_keys": (4,), "forks": (2,), "subprocesses": (2,), "many_shapes": (2,), "compiles_once": (2, 4),
         "print_alone": (2,)}


class Run:
    """A case on some processes."""

    def __init__(self, case, size, watch, limit=LIMIT):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "WORLD_SIZE": str(size), "PORT": free_port(), "WATCH": watch, "FOLDER": folder,
                           "OMP_NUM_THREADS": "1", "DEADLINE": "5", "PYTHONWARNINGS": "ignore"}
            files = [[pathlib.Path(folder) / f"{kind}{rank}.txt" for kind in ("out", "text")] for rank in range(size)]
            with contextlib.ExitStack() as opened:
                ranks = [subprocess.Popen([sys.executable, PROGRAM, case], env={**environment, "RANK": str(rank), "PYTHONHASHSEED": str(rank + 1)},
                                          start_new_session=True, stdout=opened.enter_context(out.open("w")),
                                          stderr=opened.enter_context(text.open("w"))) for rank, (out, text) in enumerate(files)]
            until, self.hangs = time.monotonic() + limit, False
            for process in ranks:
                try:
                    process.wait(timeout=max(until - time.monotonic(), 1))
                except subprocess.TimeoutExpired:
                    self.hangs = True
                    for each in ranks:
                        each.kill()
                    process.wait()
                until = max(until, time.monotonic() + 8) if "stopped" != case else time.monotonic()
            for process in ranks:  # what a rank has left behind
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            self.out = [out.read_text() for out, _ in files]
            self.text = ["\n".join(line for line in text.read_text().split("\n") if not line.startswith("[Gloo]")) for _, text in files]
            self.codes = [process.returncode for process in ranks]
            self.found = [json.loads(line)["out"] for out in self.out for line in out.splitlines() if line.startswith('{"rank"')]

    def __str__(self):
        return f"{self.codes} {self.found} {self.out}\n" + "\n".join(self.text)


def wrong(case):
    size, code, *wanted = WRONG[case]
    bare = Run(case, size, "", HANGS)
    began = time.monotonic()
    run = Run(case, size, "calls" if case in CALLS else "on")
    seconds = time.monotonic() - began
    for rank in ENDS.get(case, range(size)):  # those that end by the report
        for text in (code, *wanted):
            assert re.search(text.replace("{0}", PLACE), run.text[rank].replace("\n", " ")), f"rank {rank}: no {text!r}: {run}"
        assert code == "" or run.codes[rank] == CODES[code], f"rank {rank}: {run}"
    assert not run.hangs or case == "stopped", run
    return f"{seconds:.0f} s; without: {'hangs' if bare.hangs else 'fails' if any(bare.codes) else 'gives ' + str(bare.found)}"


def right(case):
    for size in RIGHT[case]:
        bare = Run(case, size, "")
        assert len(bare.found) == size and not any(bare.codes), f"without: {bare}"
        for watch in ("on", "calls", "audit", "once"):
            run = Run(case, size, watch)
            assert run.found == bare.found and run.codes == bare.codes, f"{watch}: {run} for {bare.found}"
            assert "lockstep" not in "".join(run.text) and "WARNING" not in "".join(run.text), f"{watch} is not quiet: {run}"
    return "as without"


if sys.argv[1:3] == ["--without", "flax"]:
    del sys.argv[1:3], RIGHT["flax_optax"]
run_cases({**{case: functools.partial(wrong, case) for case in WRONG}, **{case: functools.partial(right, case) for case in RIGHT}})
