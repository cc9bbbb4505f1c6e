#!/usr/bin/env python3
"""The example of a language model is killed at step 17 and goes on by the README's loop around mpirun: the same
losses, bit for bit; also with other numbers of ranks.

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

STEPS, EVERY, KILLED = 45, 5, 17


def command(ranks, folder, losses, steps=STEPS):
    told = ['--losses', str(losses)] if losses else []
    return [sys.argv[1], '-t', '200', '-n', str(ranks), sys.argv[2], '--steps', str(steps), '--every', str(EVERY),
            '--checkpoint', str(folder)] + told


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
    return None


# The README's loop; each start tells its losses to a file of its own.
LOOP = """n=1
until "$@" --losses "$LOSSES.$n"
do case $? in 4 | 5 | 137) sleep 1 ;; *) echo "ended with $?"; break ;; esac
n=$((n + 1))
done"""


def loop(ranks, folder, losses):
    return subprocess.Popen(['bash', '-c', LOOP, 'loop'] + command(ranks, folder, None),
                            env=dict(environment(), LOSSES=str(losses)), text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def wait_for(count, path, process):
    while len(lines(path)) < count and process.poll() is None:
        time.sleep(0.001)


def main():
    scratch = pathlib.Path(tempfile.mkdtemp(prefix='lockstep-resume-'))
    try:
        run(2, scratch / 'whole', scratch / 'reference')
        reference = lines(scratch / 'reference')
        assert len(reference) == STEPS
        # On a busy machine the job may be over before it is killed.
        for _ in range(3):
            shutil.rmtree(scratch / 'c', ignore_errors=True)
            started = loop(2, scratch / 'c', scratch / 'losses')
            first, second = scratch / 'losses.1', scratch / 'losses.2'
            wait_for(KILLED, first, started)
            killed, rank = time.monotonic(), a_rank_of(started.pid)
            if rank:
                os.kill(rank, signal.SIGKILL)
                break
            print('the job was over before it was killed:', started.communicate(timeout=100)[0])
        assert rank, 'no rank is there to kill'
        wait_for(1, second, started)
        seconds = time.monotonic() - killed
        before = lines(first)
        assert before == reference[:len(before)], 'the job that was killed had other losses'
        out = started.communicate(timeout=300)[0]
        assert started.returncode == 0 and not (scratch / 'losses.3').exists(), out
        step = int(re.search(r'goes on from step (\d+), saved by 2 ranks', out)[1])
        assert step % EVERY == 0 and KILLED - 2 * EVERY <= step <= len(before), step
        after = lines(second)
        assert after == reference[step:], 'the losses differ:\n' + '\n'.join(map(str, zip(after, reference[step:])))
        # What would fail again ends the loop.
        wrong = subprocess.run(['bash', '-c', LOOP, 'loop'] + command(2, scratch / 'c', None) + ['--text', 'nowhere'],
                               env=dict(environment(), LOSSES=str(scratch / 'none')), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
        assert 'ended with 2' in wrong.stdout, wrong.stdout
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
