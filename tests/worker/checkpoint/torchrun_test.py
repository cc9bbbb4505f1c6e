#!/usr/bin/env python3
"""A C++ job that torchrun has started, without Python and without MPI, loses a rank: torchrun starts it
again, and it goes on from its last complete checkpoint with the same losses, bit for bit. A job of two torchruns
loses one of them with its rank: the other one starts it again with fewer ranks, and it goes on, too.

usage: torchrun_test.py TORCHRUN MOE_TEXT CACHE
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

STEPS, EVERY, KILLED = 24, 4, 14


def command(folder, losses, restarts):
    return [sys.argv[1], '--no-python', '--nproc-per-node', '2', '--max-restarts', str(restarts), '--monitor-interval',
            '0.1', '--rdzv-backend', 'c10d', '--rdzv-endpoint', '127.0.0.1:0', sys.argv[2], '--steps', str(STEPS),
            '--every', str(EVERY), '--checkpoint', str(folder), '--losses', str(losses)]


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def children(parent):
    out = []
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / 'stat').read_text()
            except OSError:
                continue
            if int(stat[stat.rindex(')') + 2:].split()[1]) == parent:
                out.append(int(entry.name))
    return out


def agent(port, meeting, restarts, words):
    """One of two torchruns, as on two hosts; the job goes on with one."""
    environment = dict(os.environ, LOCKSTEP_CACHE_DIR=sys.argv[3], LOCKSTEP_COORDINATOR='off', OMP_NUM_THREADS='1',
                       LOCKSTEP_RENDEZVOUS=f'127.0.0.1:{meeting}', LOCKSTEP_DEADLINE_SECONDS='20')
    return subprocess.Popen([sys.argv[1], '--no-python', '--nnodes', '1:2', '--nproc-per-node', '1', '--max-restarts',
                             str(restarts), '--monitor-interval', '0.1', '--rdzv-backend', 'c10d', '--rdzv-endpoint',
                             f'127.0.0.1:{port}', '--rdzv-id', 'fewer', '--rdzv-conf', 'last_call_timeout=3'] + words,
                            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def free_port():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        return free.getsockname()[1]


def with_fewer_ranks(scratch):
    words = command(scratch / 'fewer', scratch / 'fewer-losses', 0)
    words = words[words.index(sys.argv[2]):]
    port, meeting = free_port(), free_port()
    stays = agent(port, meeting, 3, words)
    time.sleep(1)  # it holds the store
    goes = agent(port, meeting, 3, words)
    try:
        while len(lines(scratch / 'fewer-losses')) < KILLED and stays.poll() is None:
            time.sleep(0.001)
        victims = [goes.pid] + children(goes.pid)
        killed = time.monotonic()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        out = stays.communicate(timeout=200)[0]
        seconds = time.monotonic() - killed
    finally:
        for process in (stays, goes):
            if process.poll() is None:
                process.kill()
    assert stays.returncode == 0, out
    step, ranks = map(int, re.findall(r'goes on from step (\d+), saved by (\d) ranks', out)[-1])
    assert step % EVERY == 0 and step > 0 and ranks == 2, (step, ranks)
    assert len(lines(scratch / 'fewer-losses')) == STEPS - step, out
    print(f'one of two torchruns lost: the other went on with 1 rank from step {step}; {seconds:.2f} s from the kill '
          f'to its end')


def main():
    scratch = pathlib.Path(tempfile.mkdtemp(prefix='lockstep-torchrun-'))
    environment = dict(os.environ, LOCKSTEP_CACHE_DIR=sys.argv[3], LOCKSTEP_COORDINATOR='off', OMP_NUM_THREADS='1')
    try:
        whole = subprocess.run(command(scratch / 'whole', scratch / 'reference', 0), env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
        reference = lines(scratch / 'reference')
        assert whole.returncode == 0 and len(reference) == STEPS, whole.stdout
        started = subprocess.Popen(command(scratch / 'c', scratch / 'losses', 3), env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while len(lines(scratch / 'losses')) < KILLED and started.poll() is None:
            time.sleep(0.001)
        victim = max(pid for pid in children(started.pid)
                     if pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().startswith(sys.argv[2].encode()))
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        while len(lines(scratch / 'losses')) >= KILLED and started.poll() is None:  # until it is written anew
            time.sleep(0.001)
        while not lines(scratch / 'losses') and started.poll() is None:
            time.sleep(0.001)
        seconds = time.monotonic() - killed
        out = started.communicate(timeout=200)[0]
        assert started.returncode == 0, out
        step = int(re.search(r'goes on from step (\d+), saved by 2 ranks', out)[1])
        assert step % EVERY == 0 and step > 0, step
        assert lines(scratch / 'losses') == reference[step:], 'other losses\n' + out
        print(f'torchrun started it again, from step {step}, with the same bits; {seconds:.2f} s from the kill to the '
              f'next step')
        with_fewer_ranks(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == '__main__':
    main()
