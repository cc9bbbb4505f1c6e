#!/usr/bin/env python3
"""The example of a language model is killed at step 37 and goes on: the same losses, bit for bit; also with
other numbers of ranks, by a loop around mpirun.

usage: resume_test.py MPIRUN MOE_TEXT LOCKSTEP CACHE
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS, EVERY, KILLED = 45, 5, 37


def command(ranks, folder, losses, steps=STEPS):
    return [sys.argv[1], '-t', '200', '-n', str(ranks), sys.argv[2], '--steps', str(steps), '--every', str(EVERY),
            '--checkpoint', str(folder), '--losses', str(losses)]


def environment():
    return dict(os.environ, LOCKSTEP_CACHE_DIR=sys.argv[4], LOCKSTEP_COORDINATOR='off')


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def run(ranks, folder, losses, steps=STEPS):
    done = subprocess.run(command(ranks, folder, losses, steps), env=environment(), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240)
    assert done.returncode == 0, done.stdout
    return done.stdout


def a_rank_of(parent):
    """A process of the example that descends from `parent`."""
    parents, ranks = {}, []
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / 'stat').read_text()
                name = (entry / 'cmdline').read_bytes().split(b'\0')[0].decode()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[stat.rindex(')') + 2:].split()[1])
            if name == sys.argv[2]:
                ranks.append(int(entry.name))
    for rank in sorted(ranks, reverse=True):
        pid = rank
        while pid > 1 and pid != parent:
            pid = parents.get(pid, 0)
        if pid == parent:
            return rank
    raise AssertionError('no rank is there to kill')


def killed_at(step, ranks, folder, losses):
    started = subprocess.Popen(command(ranks, folder, losses), env=environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while len(lines(losses)) < step and started.poll() is None:
        time.sleep(0.001)
    killed = time.monotonic()
    os.kill(a_rank_of(started.pid), signal.SIGKILL)
    assert started.wait(timeout=100) != 0
    return killed


def main():
    scratch = pathlib.Path(tempfile.mkdtemp(prefix='lockstep-resume-'))
    try:
        run(2, scratch / 'whole', scratch / 'reference')
        reference = lines(scratch / 'reference')
        assert len(reference) == STEPS
        killed = killed_at(KILLED, 2, scratch / 'c', scratch / 'first')
        before = lines(scratch / 'first')
        assert before == reference[:len(before)], 'the job that was killed had other losses'
        # What a three-line loop around mpirun does.
        started = subprocess.Popen(command(2, scratch / 'c', scratch / 'second'), env=environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while not lines(scratch / 'second') and started.poll() is None:
            time.sleep(0.001)
        seconds = time.monotonic() - killed
        out = started.communicate(timeout=200)[0]
        assert started.returncode == 0, out
        step = int(re.search(r'goes on from step (\d+), saved by 2 ranks', out)[1])
        assert step % EVERY == 0 and KILLED - 2 * EVERY <= step <= len(before), step
        after = lines(scratch / 'second')
        assert after == reference[step:], 'the losses differ:\n' + '\n'.join(map(str, zip(after, reference[step:])))
        for ranks, steps in ((1, STEPS + 2), (4, STEPS + 4)):
            out = run(ranks, scratch / 'c', scratch / f'at{ranks}', steps)
            assert re.search(r'goes on from step \d+, saved by \d ranks', out), out
            assert all(abs(float(loss) - float(reference[-1])) < 0.6 for loss in lines(scratch / f'at{ranks}'))
        subprocess.run([sys.argv[3], 'checkpoint', 'verify', str(scratch / 'c')], check=True, stdout=subprocess.DEVNULL)
        print(f'killed at step {len(before)}, went on from {step} with the same bits; {seconds:.2f} s from the kill '
              f'to the next step')
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == '__main__':
    main()
