"""A case of torch_cases.py on some ranks, and what came of it; what tests of cases have in common."""

import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
GLOO, LIMIT = 9, 100  # seconds: gloo's time-out in the cases, and the most that a case may take


def free_port():
    """Below the ports that the system gives to connections, so that none takes it before a rank listens there."""
    while True:
        port = random.randrange(15000, 32000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return str(port)


def run_cases(cases):
    """Those that the command line names, else all; a case returns what is to be told of it."""
    failed, names = 0, sys.argv[1:] or list(cases)
    for name in names:
        began = time.monotonic()
        try:
            said = cases[name]()
            print(f"{name}: well, {time.monotonic() - began:.0f} s ({said})", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: FAILED: {error!r}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


class Ranks:
    """One run of a case."""

    def __init__(self, case, size=2, watched=True, policy="recompile", caches=None, hosts=None):
        """`caches`: a folder for caches on disk. `hosts`: ranks have hosts of their own, of this name."""
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "POLICY": policy,
                       "WORLD_SIZE": str(size), "LOCKSTEP_COORDINATION": "on" if watched else "off",
                       "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": str(int(caches is None)),
                       "CACHES": str(caches)}
        began = time.monotonic()
        def own(rank):
            """Folders of this rank's host, where a case has such."""
            host = pathlib.Path(caches or "") / f"{'' if hosts is None else hosts}{rank}"
            return {} if hosts is None else {
                "TORCHINDUCTOR_CACHE_DIR": str(host / "inductor"), "COMPILED": str(host / "compiled"),
                "LOCKSTEP_CACHE_DIR": str(pathlib.Path(caches) / str(rank)), "PATH": f"{caches}:{os.environ['PATH']}",
                "LOCKSTEP_JOB_ID": "alike" if hosts == "alike" else "once"}
        processes = [subprocess.Popen([sys.executable, HERE / "torch_cases.py", case],
                                      env={**environment, **own(rank), "RANK": str(rank)}, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                     for rank in range(size)]
        self.outputs, self.codes = [], []
        for rank, process in enumerate(processes):
            stopped = ":stopped:" in case and rank == 0  # never ends by itself
            if stopped:
                continue
            try:
                output, _ = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                output = process.communicate()[0] + "\nTHE TEST'S TIME IS UP\n"
            self.outputs.append(output)
            self.codes.append(process.returncode)
        if ":stopped:" in case:
            processes[0].kill()
            self.outputs.insert(0, processes[0].communicate()[0])
            self.codes.insert(0, None)
        self.seconds = time.monotonic() - began
        self.text = "\n".join(self.outputs)
        self.told = [json.loads(line) for line in self.text.splitlines() if line.startswith('{"rank"')]

    def calls(self, label, rank=None):
        return [t for t in self.told if t.get("call") == label and rank in (None, t["rank"])]

    def all_raise(self, label, error, *texts, within=4.0):
        """Every rank has this error, with these texts, and soon."""
        calls = self.calls(label)
        assert len(calls) == len(self.codes), self.text
        for call in calls:
            assert call.get("error") == error, (call, self.text)
            assert all(text in call["text"] for text in texts), (call, texts)
            assert call["seconds"] < within, call

    def all_give(self, label, value):
        """Every rank, each time, and all processes end well."""
        calls = self.calls(label)
        assert {call["rank"] for call in calls} == set(range(len(self.codes))), (label, self.text)
        assert all(call.get("value") == value for call in calls), (value, self.text)
        assert not any(self.codes) or 4 in self.codes, (self.codes, self.text)

    def goes_wrong(self, label):
        """Some rank hangs until gloo gives up or fails, or ranks have different numbers where all have
        the sum over all of them."""
        calls = self.calls(label)
        values = {c.get("value") for c in calls}
        assert len(values) > 1 or None in values or len(calls) < len(self.codes), self.text
        return "unwatched: " + ", ".join(f"rank {c['rank']} " + (
            f"fails after {c['seconds']} s" if "error" in c else f"has {c['value']}") for c in calls)

    def value(self, key):
        """Of each rank that told it."""
        return [t[key] for t in self.told if key in t]
