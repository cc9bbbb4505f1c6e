#!/usr/bin/env python3
"""A job over many hosts of one machine, each a network, host name and shared memory of its own at one bridge: its ranks
meet, encrypted, agree and exchange; one host's link is down for 3 s; one that speaks for its host is suspended, and one
is killed: all ranks name it.

many_hosts_test.py TCP_JOB_RANK [HOSTS [RANKS OF EACH]]     (8 and 2; scripts/test-long: 8 and 8)"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
HOSTS, EACH = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((2, 8), (3, 2)))
RANKS = HOSTS * EACH
LIMIT = 60 + 3 * RANKS  # seconds that a job may take; two cores have all of it


def skip(why):
    print(f"many_hosts_test: skipped: {why}")
    sys.exit(77)


class Network:
    """The hosts, by number: 10.78.0.1 and on."""

    def __init__(self, folder):
        self.keepers = [subprocess.Popen(["unshare", "--net", "--uts", "--mount", "bash", "-c",
                                          f"hostname host{n} && mount -t tmpfs tmpfs /dev/shm && ip link set lo up && "
                                          f"touch {folder}/{n}.up && exec sleep 3600"]) for n in range(HOSTS + 1)]
        until = time.monotonic() + 20
        while not all(os.path.exists(f"{folder}/{n}.up") for n in range(HOSTS + 1)):
            if time.monotonic() > until:
                skip("hosts cannot be made here")
            time.sleep(0.02)
        switch = self.keepers[HOSTS].pid
        self.on(HOSTS, "ip", "link", "add", "bridge0", "type", "bridge")
        self.on(HOSTS, "ip", "link", "set", "bridge0", "up")
        for n in range(HOSTS):
            made = subprocess.run(["ip", "link", "add", "cable", "netns", str(self.keepers[n].pid), "type", "veth",
                                   "peer", "name", f"port{n}", "netns", str(switch)], check=False)
            if made.returncode != 0:
                skip("there are no virtual cables")
            self.on(HOSTS, "ip", "link", "set", f"port{n}", "master", "bridge0", "up")
            self.on(n, "ip", "addr", "add", f"10.78.0.{n + 1}/24", "dev", "cable")
            self.on(n, "ip", "link", "set", "cable", "up")

    def command(self, host, *words):
        return ["nsenter", "-t", str(self.keepers[host].pid), "--net", "--uts", "--mount", "--", *words]

    def on(self, host, *words):
        subprocess.run(self.command(host, *words), check=True)

    def close(self):
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()


class Job:
    def __init__(self, network, folder, name, deadline, *arguments, pause=0):
        self.name, self.network, self.began = name, network, time.monotonic()
        environment = {**os.environ, "LOCKSTEP_WORLD_SIZE": str(RANKS), "LOCKSTEP_DEADLINE_SECONDS": str(deadline),
                       "LOCKSTEP_RENDEZVOUS": f"10.78.0.1:{4800 + len(name)}", "LOCKSTEP_TOKEN_FILE": f"{folder}/token",
                       "LOCKSTEP_CACHE_DIR": f"{folder}/cache", "LOCKSTEP_COORDINATOR": "off", "OMP_NUM_THREADS": "1"}
        self.files = [f"{folder}/{name}.{rank}" for rank in range(RANKS)]
        self.ranks = []
        for rank in range(RANKS):
            with open(self.files[rank], "w", encoding="utf-8") as out:
                self.ranks.append(subprocess.Popen(
                    network.command(rank // EACH, PROGRAM, *arguments, str(pause)), stdout=out, stderr=out,
                    env={**environment, "LOCKSTEP_RANK": str(rank)}, start_new_session=True))

    def said(self, rank):
        with open(self.files[rank], encoding="utf-8", errors="replace") as file:
            return file.read()

    def reaches(self, call):
        until = time.monotonic() + LIMIT
        while f"call {call}:" not in self.said(0):
            assert time.monotonic() < until and self.ranks[0].poll() is None, f"{self.name}: {self.said(0)[-2000:]}"
            time.sleep(0.05)

    def most_connections(self):
        """Of a rank, by the system's table on its host."""
        most = 0
        for host in range(HOSTS):
            table = subprocess.run(self.network.command(host, "ss", "-tnpH", "state", "established"),
                                   capture_output=True, text=True, check=True).stdout
            owners = re.findall(r"pid=(\d+)", table)
            most = max([most, *(owners.count(pid) for pid in set(owners))])
        return most

    def ends(self, codes, text=""):
        """With a code for each rank; those that leave with that of rank 0 have said the text, on each host."""
        until = self.began + LIMIT
        for rank, process in enumerate(self.ranks):
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seen = [process.returncode for process in self.ranks]
        assert all(wanted in (None, code) for wanted, code in zip(codes, seen)), (self.name, seen, self.said(0)[-3000:])
        for host in range(HOSTS):
            ranks = range(host * EACH, (host + 1) * EACH)
            assert any(re.search(text, self.said(rank)) for rank in ranks), (self.name, host, text, self.said(ranks[0]))
        return time.monotonic() - self.began


def main():
    if os.geteuid() != 0:
        skip("making hosts takes root")
    if os.environ.get("MANY_HOSTS") != "inside":
        os.environ["MANY_HOSTS"] = "inside"
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*own, "true"], capture_output=True, check=False).returncode != 0:
            skip("this machine allows no namespaces")
        os.execvp(own[0], [*own, sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/token", "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(os.urandom(32).hex())
        network = Network(folder)
        try:
            well = Job(network, folder, "well", 60, "none", "call", "0", pause=300)
            well.reaches(0)
            met = time.monotonic() - well.began
            well.reaches(3)
            most = well.most_connections()
            took = well.ends([0] * RANKS, r"rank \d+ call 7: total ")
            away = Job(network, folder, "away-", 60, "none", "call", "0", pause=150)
            away.reaches(2)
            network.on(HOSTS, "ip", "link", "set", "port1", "down")
            time.sleep(3)
            network.on(HOSTS, "ip", "link", "set", "port1", "up")
            away.ends([0] * RANKS, r"rank \d+ call 7: total ")
            speaker = EACH * (HOSTS - 1)
            codes = [4] * RANKS
            codes[speaker] = None
            Job(network, folder, "stopped", 10, "stop", "call", str(speaker), pause=50).ends(
                codes, rf"STUCK: Rank {speaker} (is suspended|did not come)")
            codes = [5] * RANKS
            codes[RANKS - 1] = None
            Job(network, folder, "killed--", 60, "kill", "call", str(RANKS - 1), pause=50).ends(
                codes, f"RANK_LOST: Rank {RANKS - 1} ended without finishing the job")
        finally:
            network.close()
    print(f"{RANKS} ranks on {HOSTS} hosts: the first call after {met:.1f} s, all after {took:.1f} s, at most {most} "
          "connections a rank, most of them for its data")


main()
