"""Collectives of every process group, compared when they are issued: programs of a PyTorch user (torch_lines_cases.py) on 2, 3
and 4 processes.

    PYTHONPATH=build/release/lib python tests/worker/python/torch_lines_test.py [CASE...]

Needs what scripts/torch-lines builds."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

LIMIT = 90  # seconds a case may take
#: What a rank that others have to hear of may take: proof is 0.3 s, a look every 20 ms; a busy machine.
SOON = 3.0
#: On 2 and 3 ranks; those that differ in one operation first.
DIFFER = ("sizes", "gather", "scatter", "functional", "compiled", "dtype", "reduction", "root", "other", "splits")
OTHERS = ("restart", "two_groups", "receives", "from_any", "layers", "fewer", "hook", "ddp_raises", "ddp_differs", "future",
          "making", "making_other", "making_locally", "sends_first", "sends_to_any", "wrapped", "wrapped_within", "stopped", "slow", "healthy")
PROGRAMS = pathlib.Path(__file__).resolve().parent / "torch_lines_cases.py"


class Run:
    def __init__(self, case, size, watched=True, kernels="", debug="OFF", apart=(), late=0.0):
        with socket.socket() as first, socket.socket() as second:
            for probe in (first, second):
                probe.bind(("127.0.0.1", 0))
            port, next_port = first.getsockname()[1], second.getsockname()[1]
        self.size = size
        processes = [subprocess.Popen(
            [*apart, sys.executable, PROGRAMS, case], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, TORCH_DISTRIBUTED_DEBUG=debug, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NEXT_PORT=str(next_port), RANK=str(rank), WORLD_SIZE=str(size),
                     OMP_NUM_THREADS="1", WATCHED=str(int(watched)), KERNELS=kernels, LATE=str(late), LOCKSTEP_COORDINATOR="off"))
            for rank in range(size)]
        until = time.monotonic() + (LIMIT if watched else LIMIT / 2)
        self.lines, self.codes, self.errors = [], [], []
        for process in processes:
            try:
                out, errors = process.communicate(timeout=max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                for each in processes:
                    each.send_signal(signal.SIGKILL)
                out, errors = process.communicate()
            self.lines += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            self.codes.append(process.returncode)
            self.errors.append(errors[-1500:])

    def of(self, call):
        """By rank."""
        return {line["rank"]: line for line in self.lines if line["call"] == call}

    def fail(self, why):
        raise AssertionError("\n".join([why, *map(str, self.lines), f"codes {self.codes}", *self.errors]))

    def all_raise(self, call, error, *texts):
        seen = self.of(call)
        if len(seen) != self.size:
            self.fail(f"{call}: not of all ranks")
        for line in seen.values():
            if line.get("error") != error or any(text not in line["text"] for text in texts) or line["seconds"] > SOON:
                self.fail(f"{call}: wanted {error} with {texts} within {SOON} s")
        if len({line["text"] for line in seen.values()}) != 1:
            self.fail(f"{call}: the ranks say different things")


def compiled_line():
    with open(PROGRAMS) as text:
        return next(number for number, line in enumerate(text, 1) if line.endswith("# the compiled collective\n"))


def check_differs(op, size):
    run = Run(op, size)
    sides = {"sizes": ("all_reduce sum f32[5]", "all_reduce sum f32[3]"), "dtype": ("f32[5]", "i32[5]"),
             "reduction": ("all_reduce sum", "all_reduce max"), "root": ("reduce sum f32[5] root 0", "root 1"),
             "other": ("all_reduce sum f32[5]", "broadcast f32[5]"),
             "compiled": [f"all_reduce sum f32[{rows}] at torch_lines_cases.py:{compiled_line()} (layers.0)" for rows in (5, 3)],
             "splits": ("takes 3", "sends 2")}.get(op, ("[5", "[3") if op != "scatter" else ("reduce_scatter_tensor",))
    passes = {"root"} if op == "root" else set()
    if passes:  # who is no root need not wait: it hears of it at its next operation
        if not any(line.get("error") == "GraphDivergence" for line in run.of("apart").values()):
            run.fail("nobody refused")
    else:
        run.all_raise("apart", "GraphDivergence", "operation 2 of the group of ranks 0-", "torch_lines_cases.py:", *sides)
    run.all_raise("after", "GraphDivergence")
    if any(line.get("value") != float(size) for line in run.of("new group").values()) or run.codes != [0] * size:
        run.fail("a new group works")


def check_restart(size):
    run = Run("restart", size)
    run.all_raise("apart", "GraphDivergence")
    if [line.get("value") for line in run.of("again").values()] != [float(size)] * size:
        run.fail("the group of the new start lives")


def check_two_groups(size):
    run = Run("two_groups", size)
    run.all_raise("apart", "Stuck", "ranks wait for each other", "number 2 of these", "number 3 of these", "operation 2")
    if any(line.get("value") != float(size) for line in run.of("world").values()):
        run.fail("other groups go on")


def check_receives(size):
    run = Run("receives", size)
    line = run.of("received")[1]
    if line.get("error") != "GraphDivergence" or "send f32[4]" not in line["text"] or "receive f32[3]" not in line["text"]:
        run.fail("the receiver refuses")


def check_from_any(size):
    run = Run("from_any", size)
    refused = [line for line in run.lines if line.get("error") == "GraphDivergence"]
    values = [line for line in run.lines if "value" in line]
    if len(refused) != 1 or len(values) + 1 != 2 * (size - 1) or f"the sends from rank {size - 1} to rank 0 with tag 5" not in refused[0]["text"] or any(
            text not in refused[0]["text"] for text in ("operation 2 of", "send i32[4]", "receive f32[4]")):
        run.fail("what does not fit is told when it has come")


def check_layers(size):
    Run("layers", size).all_raise("apart", "GraphDivergence", "operation 3 of", "all_reduce sum f32[5, 5] at torch_lines_cases.py",
                                  "(layers.1)", "f32[3, 5]")


def check_sharded(size):
    """The last rank's group, of two ranks, is named by its dim, and the layer in whose hook the collective is."""
    run = Run("sharded", size)
    for rank, line in run.of("apart").items():
        is_apart = rank % 2 == (size - 1) % 2
        if is_apart != (line.get("error") == "GraphDivergence") or is_apart and any(
                text not in line["text"] for text in ("the group dp (ranks 1,3)", "(1)", "torch_lines_cases.py")):
            run.fail("the group and the layer are named")


def check_fewer(size):
    run = Run("fewer", size)
    for rank in range(size - 1):
        line = run.of("apart").get(rank, {})
        if line.get("error") not in ("Stuck", "Gone", "FrameMismatch") or line["seconds"] > SOON:
            run.fail("who waits hears that the other has ended")


def check_hook(size):
    run = Run("hook", size)
    for rank in range(1, size):
        line = run.of("step").get(rank, {})
        if line.get("error") != "Gone" or "ValueError: nan in the gradient of rank 0" not in line["text"] or line["seconds"] > SOON:
            run.fail("who waits hears of the exception")
    if 0 in run.codes:
        run.fail("all ranks end with an error")


def check_ddp_raises(size):
    run = Run("ddp_raises", size)
    for rank in range(size - 1):
        line = run.of("step").get(rank, {})
        if line.get("error") != "Gone" or "no gradient on this rank" not in line["text"] or line["seconds"] > SOON:
            run.fail("the reducer's wait ends")
    if 0 in run.codes:
        run.fail("all ranks end with an error")


def check_ddp_differs(size):
    run = Run("ddp_differs", size)
    run.all_raise("step", "GraphDivergence", "all_reduce sum f32[15]", "all_reduce sum f32[2]")


def check_future(size):
    run = Run("future", size)
    run.all_raise("apart", "GraphDivergence", "all_reduce sum f32[5]", "all_reduce sum f32[3]")
    if any(line.get("value") != float(size) for line in run.of("alike").values()):
        run.fail("a future gives its value")


def check_making(size):
    run = Run("making", size)
    line = run.of("apart").get(size - 1, {})
    if line.get("error") != "Stuck" or f"new_group of ranks 0-{size - 1} at torch_lines_cases.py" not in line["text"] or line["seconds"] > SOON:
        run.fail("who waits for one that makes a group is freed")
    if run.codes[:-1] != [4] * (size - 1) or any("lockstep: STUCK" not in errors for errors in run.errors[:-1]):
        run.fail("who makes the group alone ends with the report")


def check_making_other(size):
    run = Run("making_other", size)
    refused = [line["text"] for line in run.of("apart").values() if line.get("error") == "GraphDivergence"] + [
        errors for errors in run.errors if "lockstep: GRAPH_DIVERGENCE" in errors]
    if not refused or any("new_group of rank 0 at torch_lines_cases" not in text or "new_group of ranks 0-1 at torch_lines_cases" not in text
                          for text in refused):
        run.fail("both sides are told")


def check_making_locally(size):
    run = Run("making_locally", size)
    if [line.get("value") for line in run.of("alike").values()] != [float(size)] * size:
        run.fail("a group is made where its ranks are alike")
    told = "\n".join([line.get("text", "") for line in run.of("apart").values()] + run.errors)
    for word in ("GRAPH_DIVERGENCE", f"new_group of ranks 0-{size - 1}, process group 3 of this rank", "process group 4 of this rank"):
        if word not in told:
            run.fail(f"{word} is not said")


def check_sends_first(size):
    run = Run("sends_first", size)
    if [line.get("value") for line in run.of("alike").values()] != [1.0, 1.0]:
        run.fail("a swap is done")
    run.all_raise("apart", "Stuck", "ranks wait for each other", "send f32[3] at torch_lines_cases.py", "all_reduce sum f32")


def check_sends_to_any(size):
    run = Run("sends_to_any", size)
    for name, ranks in (("reduced", size), ("sent", 1)):
        if sum("value" in line for line in run.of(name).values()) != ranks:
            run.fail("it is taken, and the ranks go on")


def check_wrapped(size, case="wrapped"):
    run = Run(case, size)
    if run.codes != [3] * size or any("RuntimeError: in a hook: GRAPH_DIVERGENCE" not in errors for errors in run.errors):
        run.fail("the process ends with the code of what was refused")


def check_wrapped_within(size):
    check_wrapped(size, "wrapped_within")


def check_stopped(size):
    run = Run("stopped", size)
    for rank in range(size - 1):
        line = run.of("stopped").get(rank, {})
        if line.get("error") != "Stuck" or f"rank {size - 1} does not move on" not in line["text"] or not 2.9 < line["seconds"] < 9:
            run.fail("a stopped rank is named after the deadline")


def check_slow(size):
    run = Run("slow", size)
    if [line.get("value") for line in run.of("slow").values()] != [float(size)] * size or run.codes != [0] * size:
        run.fail("a rank that works is waited for")


def check_healthy(size):
    totals = {watched: {rank: line["value"] for rank, line in Run("healthy", size, watched).of("total").items()}
              for watched in (True, False)}
    if totals[True] != totals[False] or len(totals[True]) != size:
        raise AssertionError(f"a healthy program is not disturbed: {totals}")


def check_python(size):
    """Kernels in Python, as for a torch without a part: nobody gets a number of unequal sizes, and who refuses says so."""
    for op in ("sizes", "gather", "functional", "splits", "other", "root"):
        run = Run(op, size, kernels="python")
        apart = run.of("apart").values()
        refused = [line for line in apart if line.get("error") == "GraphDivergence"]
        if not refused or any("torch_lines_cases.py:" not in line["text"] for line in refused) or (
                op != "root" and any("value" in line for line in apart)):
            run.fail(f"{op}: at least one refuses")
    healthy = [Run("healthy", size, True, kernels="python"), Run("healthy", size, False)]
    totals = [{rank: line["value"] for rank, line in run.of("total").items()} for run in healthy]
    if totals[0] != totals[1] or len(totals[0]) != size:
        raise AssertionError(f"a healthy program is not disturbed: {totals} {healthy[0].errors}")


#: Ranks that cannot open each other's memory, as in containers: each is a host of its own.
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def check_passed(size):
    """Between hosts, within the lag, gloo gives a number: a rank that has one ends with the error. A rank that is late by more
    than the lag refuses before it issues, so up to five runs are made until every rank has a number."""
    for _ in range(5):
        run = Run("passed", size, apart=CONTAINER)
        ends = {rank: (line, run.codes[rank], run.errors[rank]) for rank, line in run.of("apart").items()}
        if len(ends) != size or any(
                (code != 3 or any(text not in errors for text in ("lockstep: GRAPH_DIVERGENCE", "reduce sum", "reduce max")))
                if "value" in line else line["error"] != "GraphDivergence" for line, code, errors in ends.values()):
            run.fail("a rank with a number ends with the error, and another refuses")
        if all("value" in line for line, _, _ in ends.values()):
            return
    run.fail("no run in which every rank has a number")


def check_hosts(size):
    """Between hosts: what differs is refused at once or after a lag, and who waits is freed as on one host."""
    if subprocess.run([*CONTAINER, "true"], capture_output=True).returncode != 0:
        print("hosts: SKIPPED ALOUD: unshare may not make a namespace of processes")
        return
    for op in ("sizes", "gather", "functional", "splits", "other"):
        run = Run(op, size, apart=CONTAINER, late=0.2)
        run.all_raise("apart", "GraphDivergence", "operation 2 of the group of ranks 0-", "torch_lines_cases.py:")
        run.all_raise("after", "GraphDivergence")
        if any(line.get("value") != float(size) for line in run.of("new group").values()) or run.codes != [0] * size:
            run.fail(f"{op}: a new group works")
    check_passed(size)
    run = Run("two_groups", size, apart=CONTAINER)
    run.all_raise("apart", "Stuck", "ranks wait for each other", "number 2 of these", "number 3 of these", "operation 2")
    run = Run("hook", size, apart=CONTAINER)
    line = run.of("step").get(1, {})
    if line.get("error") != "Gone" or "ValueError: nan in the gradient of rank 0" not in line["text"] or line["seconds"] > SOON:
        run.fail("who waits hears of the exception")
    run = Run("ddp_raises", size, apart=CONTAINER)
    line = run.of("step").get(0, {})
    if line.get("error") != "Gone" or "no gradient on this rank" not in line["text"] or line["seconds"] > SOON:
        run.fail("the reducer's wait ends")
    healthy = [Run("healthy", size, True, apart=CONTAINER), Run("healthy", size, False)]
    totals = [{rank: line["value"] for rank, line in run.of("total").items()} for run in healthy]
    if totals[0] != totals[1] or len(totals[0]) != size or healthy[0].codes != [0] * size:
        raise AssertionError(f"a healthy program is not disturbed: {totals} {healthy[0].errors}")


def check_detail(size):
    """Beside torch's own check, which waits for all members before it issues."""
    Run("sizes", size, debug="DETAIL").all_raise("apart", "GraphDivergence", "all_reduce sum f32[5]", "all_reduce sum f32[3]")
    run = Run("two_groups", size, debug="DETAIL")
    run.all_raise("apart", "Stuck", "ranks wait for each other")
    if any(line.get("value") != float(size) for line in run.of("world").values()):
        run.fail("other groups go on")
    line = Run("hook", size, debug="DETAIL").of("step").get(1, {})
    if line.get("error") != "Gone" or line["seconds"] > SOON:
        run.fail("who waits hears of the exception")


def check_bare(size):
    """Without, rank 0 gets a number, so that the cases bite."""
    run = Run("sizes", size, watched=False)
    first = run.of("apart")[0]
    if any("GraphDivergence" == line.get("error") for line in run.lines) or 0 in run.codes or (
            "value" not in first and "closed" not in first["text"] and "reset" not in first["text"]):
        run.fail("rank 0 gets a number, or hears that the others are gone, and they are aborted")


def main():
    chosen = sys.argv[1:]
    failed = 0
    for name, size in [*((op, size) for size in (2, 3) for op in (*DIFFER, *OTHERS, "detail", "hosts", "python")),
                       *((op, 4) for op in ("two_groups", "healthy", "sizes", "sharded")), ("bare", 2)]:
        if chosen and name not in chosen:
            continue
        check = globals().get(f"check_{name}") or (lambda size, op=name: check_differs(op, size))
        began = time.monotonic()
        try:
            check(size)
            print(f"{name}.n{size}: passed, {time.monotonic() - began:.1f} s", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"{name}.n{size}: FAILED: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
