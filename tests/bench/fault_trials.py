#!/usr/bin/python3
"""How long the coordinator takes to name a rank that goes wrong, in jobs of four ranks under mpirun.

Trials of three kinds: a rank that is killed, one that is suspended, and one that lives and reports
but does not come to the operation in which the others wait. Each time: a coordinator, a job that
reports to it, the fault at a random rank at a random moment, and the seconds until the
coordinator's line that names that rank. Prints the distribution and writes JSON.

usage: tests/bench/fault_trials.py [--bin DIR] [--trials N] [--seed S] [--out FILE]
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 30


class Lines:
    """What a process says, line by line, with the time at which each line came."""

    def __init__(self, stream):
        self.said = []
        self.more = threading.Condition()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            with self.more:
                self.said.append((time.monotonic(), line.rstrip()))
                self.more.notify_all()

    def wait_for(self, wanted, seconds=PATIENCE_S):
        """The time of the first line for which wanted(line) is true; None where none comes."""
        until = time.monotonic() + seconds
        seen = 0
        with self.more:
            while True:
                for at, line in self.said[seen:]:
                    if wanted(line):
                        return at
                seen = len(self.said)
                if not self.more.wait(until - time.monotonic()) and time.monotonic() >= until:
                    return None


def process_of(rank, port_file):
    """The process of that rank of the job that reports to this coordinator."""
    marks = (f"OMPI_COMM_WORLD_RANK={rank}".encode(),
             f"LOCKSTEP_COORDINATOR={port_file}".encode())
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                program = (entry / "comm").read_text()
            except OSError:
                continue
            if program.startswith("coordinator_jo") and all(m in environment for m in marks):
                return int(entry.name)
    return None


def names(line, kind, rank):
    """True for a warning of this kind that names this rank, alone or among others."""
    found = re.search(rf"WARN {kind} job=\S+: [Rr]anks? ([\d,-]+)", line)
    if not found:
        return False
    for part in found.group(1).split(","):
        first, _, last = part.partition("-")
        if int(first) <= rank <= int(last or first):
            return True
    return False


def trial(kind, binaries, generator):
    """Seconds until the rank was named; None where it was not."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = f"{folder}/port"
        coordinator = subprocess.Popen(
            [binaries / "lockstep", "coordinator", "--port-file", port_file],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = Lines(coordinator.stdout)
        if said.wait_for(lambda line: "ready at" in line) is None:
            sys.exit("fault_trials.py: the coordinator did not start")
        rank = 1 if kind == "stuck" else generator.randrange(4)
        words = ["6", "1", "stall", "60"] if kind == "stuck" else ["100000", "5"]
        job = subprocess.Popen(
            [ROOT / "scripts/mpirun", "-t", "60", "-n", "4", binaries / "coordinator_job_rank", *words],
            env={**os.environ, "LOCKSTEP_COORDINATOR": port_file, "LOCKSTEP_LOG": "off",
                 "LOCKSTEP_DEADLINE_SECONDS": "45"},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        steps = Lines(job.stdout)
        calls = 5 if kind == "stuck" else generator.randrange(100, 400)
        count = [0]

        def enough(line):
            count[0] += line.startswith("total ")
            return count[0] >= calls

        began = steps.wait_for(enough)
        if began is None:
            sys.exit("fault_trials.py: the job did not run")
        if kind != "stuck":
            process = process_of(rank, port_file)
            began = time.monotonic()
            os.kill(process, signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
        word = {"killed": "lost", "stopped": "silent", "stuck": "stuck"}[kind]
        at = said.wait_for(lambda line: names(line, word, rank))
        if kind == "stopped":
            os.kill(process, signal.SIGCONT)
        job.terminate()
        job.wait()
        coordinator.terminate()
        coordinator.wait()
        return None if at is None else at - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--out", type=pathlib.Path)
    wishes = parser.parse_args()
    print(f"seed {wishes.seed}, {wishes.trials} trials of each kind, 4 ranks")
    generator = random.Random(wishes.seed)
    figures = {}
    for kind in ("killed", "stopped", "stuck"):
        times = []
        for number in range(wishes.trials):
            times.append(trial(kind, wishes.bin.resolve(), generator))
            if sys.stderr.isatty():
                print(f"\r{kind} {number + 1}/{wishes.trials} ", end="", file=sys.stderr)
        named = sorted(t for t in times if t is not None)
        at = lambda share: named[min(len(named) - 1, int(share * len(named)))]
        figures[kind] = {"named": len(named), "trials": len(times), "seconds": named}
        print(f"{kind}: named in {len(named)} of {len(times)}" + (
            f"; median {at(0.5):.3f} s, p90 {at(0.9):.3f} s, most {named[-1]:.3f} s" if named else ""))
    if wishes.out:
        wishes.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(f["named"] == f["trials"] for f in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
