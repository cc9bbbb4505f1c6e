#!/usr/bin/env python3
"""Whole jobs over a network that goes wrong (tests/collectives/tcp/tcp_relay.h): each rank is a host of its own, by
/dev/shm, so that all they say goes over TCP; the relay delays, stalls, cuts and resets it, and what they say to a
coordinator, where there is one. In half of them the wall clock of one host jumps by hours. Every job ends as it
would over a good network: with its results, or with the name of the rank that was lost or stopped. Nothing is left
of it.

relayed_jobs_test.py LOCKSTEP TCP_JOB_RANK TCP_RELAY_PROGRAM TCP_RELAY_CONNECT CLOCK_JUMPS [SEED...]
LOCKSTEP_RELAYED_JOBS says how many (9; scripts/test-long: 100), each with a seed of its own."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

LOCKSTEP, RANK_PROGRAM, RELAY, CONNECT, JUMPS = sys.argv[1:6]
#: What the job is to come to, with the code that its ranks leave with and what they say of the one that is at fault.
FAULTS = {"none": (0, None), "pause": (0, None), "kill": (5, "RANK_LOST: Rank {} ended without finishing the job"),
          "exit": (5, "RANK_LOST: Rank {} ended without finishing the job"),
          "suspend": (4, "STUCK: Rank {} (is suspended|did not come|.* has said nothing)")}
LIMIT = 90  # seconds


def host(command):
    """The command on a host of its own."""
    return ["unshare", "--mount", "bash", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "host", *command]


class Trial:
    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed, self.ranks, self.port = seed, draw.randint(2, 4), 20_000 + 2 * (seed % 5_000)
        self.fault = list(FAULTS)[seed % len(FAULTS)]
        self.moment, self.faulty = draw.choice(["call", "wait"]), draw.randrange(self.ranks)
        self.coordinated, self.cold = draw.random() < 0.5, draw.random() < 0.5
        self.jumping = draw.randrange(self.ranks) if draw.random() < 0.5 else None

    def __str__(self):
        return (f"seed {self.seed}: {self.ranks} ranks, {self.fault} of rank {self.faulty} in a {self.moment}, "
                f"{'a' if self.coordinated else 'no'} coordinator, {'cold' if self.cold else 'warm'}"
                f"{'' if self.jumping is None else f', the clock of rank {self.jumping} jumps'}")

    def run(self, folder, warm):
        """How many streams were broken."""
        token = os.path.join(folder, "token")
        environment = {**os.environ, "LOCKSTEP_RENDEZVOUS": f"127.0.0.1:{self.port}", "LOCKSTEP_TOKEN_FILE": token,
                       "LOCKSTEP_WORLD_SIZE": str(self.ranks),
                       "LOCKSTEP_DEADLINE_SECONDS": "6" if self.fault == "suspend" else "10",
                       "LOCKSTEP_CACHE_DIR": os.path.join(folder, "cold") if self.cold else warm,
                       "LOCKSTEP_COORDINATOR": "off", "LOCKSTEP_JOB_ID": f"relayed-{self.seed}"}
        with open(token, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"{random.Random(self.seed).getrandbits(256):064x}")
        relay = subprocess.Popen([RELAY, str(self.seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port, coordinator, ranks, late = relay.stdout.readline().strip(), None, [], []
        try:
            if self.coordinated:
                coordinator = self.coordinator(folder, environment)
            ranks = [subprocess.Popen(
                host([RANK_PROGRAM, self.fault, self.moment, str(self.faulty), "20"]), text=True, errors="replace",
                env={**environment, "LOCKSTEP_RANK": str(rank), "TCP_RELAY_PORT": port,
                     "LD_PRELOAD": f"{CONNECT}:{JUMPS}" if rank == self.jumping else CONNECT},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) for rank in range(self.ranks)]
            until = time.monotonic() + LIMIT
            # One that is suspended ends last, by this test.
            order = sorted(range(self.ranks), key=lambda rank: self.fault == "suspend" and rank == self.faulty)
            said = [""] * self.ranks
            for rank in order:
                if rank == self.faulty and self.fault == "suspend":
                    os.killpg(ranks[rank].pid, signal.SIGKILL)
                try:
                    said[rank] = ranks[rank].communicate(timeout=max(until - time.monotonic(), 0.1))[0]
                except subprocess.TimeoutExpired:
                    late.append(rank)
                    os.killpg(ranks[rank].pid, signal.SIGKILL)
                    said[rank] = ranks[rank].communicate()[0]
        finally:
            for process in [*ranks, *([coordinator] if coordinator else [])]:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            relay.stdin.close()
            told = relay.stdout.read()
            relay.wait()
        assert not late, f"ranks {late} had not ended after {LIMIT} s\n" + "\n".join(said)
        self.check([rank.returncode for rank in ranks], said)
        return int(told.split()[0])

    def coordinator(self, folder, environment):
        port = os.path.join(folder, "port")
        at = f"127.0.0.1:{self.port + 1}"
        process = subprocess.Popen([LOCKSTEP, "coordinator", "--listen", at, "--port-file", port, "--token-file",
                                    environment["LOCKSTEP_TOKEN_FILE"]], start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not os.path.exists(port):
            if time.monotonic() > until:
                process.kill()
                raise AssertionError("the coordinator does not start")
            time.sleep(0.02)
        environment["LOCKSTEP_COORDINATOR"] = at
        return process

    def check(self, codes, said):
        code, wanted = FAULTS[self.fault]
        every = "\n".join(f"--- rank {rank} left with {code}\n{text}" for rank, (code, text) in
                          enumerate(zip(codes, said)))
        well = [rank for rank in range(self.ranks) if code == 0 or rank != self.faulty]
        assert all(codes[rank] == code for rank in well), every
        if wanted is None:
            last = re.findall(r"call 7: (.*)", "\n".join(said))
            assert len(last) == self.ranks and len(set(last)) == 1, every
        elif not any(re.search(wanted.format(self.faulty), said[rank]) for rank in well):
            raise AssertionError(f"nobody says {wanted.format(self.faulty)}\n{every}")
        blamed = set(re.findall(r"(?:RANK_LOST|STUCK): Ranks? (\S+)", "\n".join(said[rank] for rank in well)))
        assert blamed <= ({str(self.faulty)} if wanted else set()), (blamed, every)


def main():
    probe = subprocess.run(host(["true"]), capture_output=True, text=True)
    if os.environ.get("RELAYED_JOBS") != "inside" and probe.returncode == 0:
        os.environ["RELAYED_JOBS"] = "inside"
        # A network of the test's own, so that nobody else has its ports.
        own = ["unshare", "--net", "bash", "-c", 'ip link set lo up && exec "$@"', "network"]
        probe = subprocess.run([*own, "true"], capture_output=True, text=True)
        if probe.returncode == 0:
            os.execvp(own[0], [*own, sys.executable, *sys.argv])
    if probe.returncode != 0:
        print(f"relayed_jobs_test: skipped: no hosts can be made here: {probe.stderr.strip()}")
        sys.exit(77)
    seeds = [int(seed) for seed in sys.argv[6:]] or range(1, int(os.environ.get("LOCKSTEP_RELAYED_JOBS", "9")) + 1)
    broken = failed = 0
    with tempfile.TemporaryDirectory() as warm:
        for seed in seeds:
            trial, began = Trial(seed), time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    broken += trial.run(folder, warm)
                    print(f"{trial}: well, {time.monotonic() - began:.1f} s", flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"{trial}: FAILED: {error}", flush=True)
    print(f"{len(seeds) - failed} passed, {failed} failed; {broken} streams were broken")
    sys.exit(1 if failed or broken == 0 else 0)


main()
