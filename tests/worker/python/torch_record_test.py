"""A PyTorch job that is recorded, on 2 processes: its record replays, a dry run on more ranks draws from it, and
the lines that it prints, pasted into the program, save the compiles that it says.
usage: torch_record_test.py LOCKSTEP; on each rank, torch_record_test.py JOB"""

import json
import os
import socket
import subprocess
import sys
import tempfile

RANKS = 2


def attempt(call, *args, **kwargs):
    try:
        return float(call(*args, **kwargs))
    except Exception as error:
        return type(error).__name__


def job(kind):
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional

    import lockstep.torch

    dist.init_process_group("gloo")
    watch = lockstep.torch.watch()
    compiled = torch.compile if kind == "watched" else lockstep.torch.compile
    rank = dist.get_rank()

    def total(x):
        return functional.all_reduce(x.sum(), "sum", dist.group.WORLD)

    def step(x, mask):
        return total(x * mask)

    def branch(x):
        return total(x * 3) if x.size(0) > 4 else total(x)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x):
            return total(self.inner(x))

    run = compiled(step, backend="eager")
    for n in (8, 8, 5 + 2 * rank, 9 - rank, 7 + 3 * rank):
        x, mask = torch.ones(n, 4), torch.ones(n, 1)
        exec(os.environ.get("MARKS", ""))  # the lines of a dry run
        assert attempt(run, x, mask) != "", n
    if kind == "ragged":
        return watch.close()
    branched = compiled(branch, backend="eager")
    said = [attempt(branched, torch.ones(n, 4)) for n in (6 + rank, 4 + rank, 7 + rank, 2 + rank)]
    blocks = [compiled(Block(), backend="eager") for _ in range(2)]  # of one name
    for block in blocks:
        for n in (4 + rank, 6, rank):  # then a call with 0 and 1 rows
            attempt(block, torch.ones(n, 4))
        block.eval()
        attempt(block, torch.ones(5, 4))
        block.train()
        attempt(block, torch.ones(5 + rank, 4, requires_grad=True))
        said.append(attempt(block, torch.ones(5, 4, requires_grad=rank == 0)))
    needs = compiled(branch, backend="eager", name="needs")  # the value of a size that is 0 or 1
    said += [attempt(needs, torch.ones(n, 4)) for n in (rank, 6 + rank)]
    if kind == "compiled":
        assert said[1] == "BranchDivergence" and said.count("ConstantMismatch") == 2, said
    watch.close()


def start(kind, record, marks=""):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS),
                   "LOCKSTEP_RECORD": record, "MARKS": marks, "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, __file__, kind], env={**environment, "RANK": str(rank)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(RANKS)]
    said = [rank.communicate(timeout=200)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * RANKS, "\n".join(said)


def dryrun(record, *options):
    ran = subprocess.run([LOCKSTEP, "dryrun", record, "--json", *options], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def main():
    with tempfile.TemporaryDirectory(prefix="lockstep-torch-record-") as folder:
        record = f"{folder}/compiled"
        start("compiled", record)
        outcomes = [((call["frame"] or "").replace("job.<locals>.", ""), call["outcome"])
                    for call in dryrun(record)["calls"]]
        assert outcomes[:5] == [("step", "compiled"), ("step", "reused"), ("step", "compiled"), ("step", "reused"),
                                ("step", "reused")], outcomes
        assert {frame for frame, _ in outcomes} >= {"Block.forward", "Block.forward (2)", "branch", "needs"}
        assert ("needs", "error") in outcomes  # run without a compiled version
        many = dryrun(record, "--ranks", "64")
        lines = [mark["line"] for mark in many["advice"]["marks"] if mark["frame"].endswith(".step")]
        assert lines == [f"torch._dynamo.mark_dynamic({source}, 0)  # job.<locals>.step: 5 to 10, 2 compiles"
                         for source in ("mask", "x")], lines
        print(f"compiled: well ({len(outcomes)} calls; on 64 ranks {many['totals']})", flush=True)

        start("watched", f"{folder}/watched")
        assert dryrun(f"{folder}/watched")["calls"] == []
        print("watched: well (nothing is decided, and the record replays)", flush=True)

        start("ragged", f"{folder}/ragged")
        plain = dryrun(f"{folder}/ragged")
        start("ragged", f"{folder}/marked", "\n".join(mark["line"] for mark in plain["advice"]["marks"]))
        marked = dryrun(f"{folder}/marked")
        counts = plain["totals"]["compiles"], marked["totals"]["compiles"]
        assert counts == (2, 1) == (2, plain["advice"]["compiles_if_marked"]), counts
        assert marked["advice"]["marks"] == []
        print("marked: well (1 compile in place of 2)", flush=True)


if "RANK" in os.environ:
    job(sys.argv[1])
    os._exit(0)
LOCKSTEP = sys.argv[1]
main()
