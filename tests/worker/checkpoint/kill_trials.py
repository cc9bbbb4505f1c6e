#!/usr/bin/env python3
"""Jobs that are stopped while they save checkpoints: what they leave is whole, and the job that goes on
from it takes the same steps, bit for bit.

usage: kill_trials.py MPIRUN CHECKPOINT_RANK LOCKSTEP CACHE [--trials N] [--seed S]

N trials of each kind: a rank killed at a stage of a save, a rank that leaves there, a rank killed at any
time, and a disk that is full (a tmpfs; said aloud where none can be mounted). Every trial's seed is
printed where it fails.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS, EVERY = 8, 2
STAGES = ['folder_made', 'file_begun', 'file_half_written', 'file_written', 'file_synced', 'file_named',
          'all_written', 'index_written', 'index_synced', 'index_named', 'committed', 'committed_synced']
BY_RANK_0 = {'folder_made', 'index_written', 'index_synced', 'index_named', 'committed', 'committed_synced'}


class Job:
    def __init__(self, arguments):
        self.a = arguments

    def command(self, ranks, folder, *more):
        return [self.a.mpirun, '-t', '60', '-n', str(ranks), self.a.program, str(folder), str(STEPS), str(EVERY),
                *map(str, more)]

    def environment(self):
        return dict(os.environ, LOCKSTEP_CACHE_DIR=self.a.cache, LOCKSTEP_COORDINATOR='off', LOCKSTEP_LOG='off')

    def run(self, ranks, folder, *more):
        done = subprocess.run(self.command(ranks, folder, *more), env=self.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90)
        return done.returncode, done.stdout

    def run_until(self, seconds, ranks, folder, rng):
        """Kills one rank so long after the first step."""
        started = subprocess.Popen(self.command(ranks, folder), env=self.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        out = ''
        for line in started.stdout:
            out += line
            if line.startswith('step 1:'):
                break
        time.sleep(seconds)
        pids = self.ranks_below(started.pid)
        if pids:
            try:
                os.kill(rng.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                pass
        out += started.communicate(timeout=90)[0]
        return started.returncode, out

    def ranks_below(self, parent):
        """Processes of the program that descend from `parent`."""
        parents, ranks = {}, []
        for entry in pathlib.Path('/proc').iterdir():
            if not entry.name.isdigit():
                continue
            try:
                stat = (entry / 'stat').read_text()
                command = (entry / 'cmdline').read_bytes().split(b'\0')[0].decode()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[stat.rindex(')') + 2:].split()[1])
            if command == self.a.program:
                ranks.append(int(entry.name))
        def below(pid):
            while pid > 1:
                if pid == parent:
                    return True
                pid = parents.get(pid, 0)
            return False
        return [pid for pid in ranks if below(pid)]

    def lockstep(self, *arguments):
        done = subprocess.run([self.a.lockstep, 'checkpoint', *map(str, arguments), '--json'], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, (json.loads(done.stdout) if done.stdout else None), done.stderr


def steps_in(output):
    return dict(re.findall(r'^step (\d+): (.*)$', output, re.M))


def resumed(output):
    found = re.search(r'^resumed from (\d+)$', output, re.M)
    return int(found[1]) if found else None


def check(holds, what, output=''):
    if not holds:
        raise AssertionError(f'{what}\n{output}')


def check_whole(job, folder):
    """Every checkpoint that has a name is whole; the last one's step, 0 where there is none."""
    code, said, error = job.lockstep('list', folder) if folder.exists() else (0, {'checkpoints': []}, '')
    check(code == 0, f'list ends with {code}: {error}')
    steps = [one['step'] for one in said['checkpoints']]
    if steps:
        code, said, error = job.lockstep('verify', folder)
        check(code == 0 and all(one['whole'] for one in said['checkpoints']), f'verify: {code} {error}')
    check(all(step % EVERY == 0 for step in steps), f'steps {steps}')
    return max(steps, default=0)


def check_goes_on(job, ranks, folder, reference, rng):
    last = check_whole(job, folder)
    other = ranks if rng.random() < 0.6 else rng.choice([1, 2, 3, 4])
    code, out = job.run(other, folder)
    check(code == 0, f'the job that goes on ends with {code}', out)
    check(resumed(out) == last, f'it goes on from {resumed(out)}, and the last complete is {last}', out)
    check('failed:' not in out, 'a save failed', out)
    steps = steps_in(out)
    check(sorted(map(int, steps)) == list(range(last + 1, STEPS + 1)), 'other steps', out)
    if other == ranks:
        check(all(reference[ranks][step] == value for step, value in steps.items()),
              'the steps are not the same bits', out)
    left = [path.name for path in folder.iterdir() if not path.name.startswith('step-')]
    check(not left, f'left behind: {left}')
    check(check_whole(job, folder) == STEPS, 'the last step is not saved')


def at_stage(job, folder, reference, rng, how):
    ranks, stage = rng.choice([2, 3, 4]), rng.choice(STAGES)
    rank = 0 if stage in BY_RANK_0 else rng.randrange(ranks)
    code, out = job.run(ranks, folder, stage, rank, how)
    check(code != 0, f'{stage} on rank {rank} did not end the job', out)
    last = check_whole(job, folder)
    check(last >= EVERY, f'the checkpoint before is lost at {stage} on rank {rank}', out)
    check_goes_on(job, ranks, folder, reference, rng)


def killed_at_a_stage(job, folder, reference, rng):
    at_stage(job, folder, reference, rng, int(signal.SIGKILL))


def left_at_a_stage(job, folder, reference, rng):
    at_stage(job, folder, reference, rng, 0)


def killed_at_any_time(job, folder, reference, rng):
    ranks = rng.choice([2, 3, 4])
    job.run_until(rng.random() * 0.05, ranks, folder, rng)
    check_goes_on(job, ranks, folder, reference, rng)


def disk_full(job, folder, reference, rng):
    ranks = rng.choice([1, 2, 3])
    disk = folder.parent / 'disk'
    disk.mkdir()
    size = rng.randrange(2, 40) * 4096
    mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'none', disk], stderr=subprocess.DEVNULL)
    if mounted.returncode != 0:
        disk.rmdir()
        return 'SKIPPED: no tmpfs can be mounted here'
    try:
        code, out = job.run(ranks, disk / 'c')
        check(code == 0, f'a full disk of {size} bytes ends the job with {code}', out)
        last = check_whole(job, disk / 'c')
        check(('failed: ENVIRONMENT' in out) == (last < STEPS), f'last {last}', out)
        subprocess.run(['mount', '-o', 'remount,size=10m', disk], check=True)
        check_goes_on(job, ranks, disk / 'c', reference, rng)
    finally:
        subprocess.run(['umount', '-l', disk], check=True)
        disk.rmdir()


def main():
    parser = argparse.ArgumentParser()
    for name in ('mpirun', 'program', 'lockstep', 'cache'):
        parser.add_argument(name)
    parser.add_argument('--trials', type=int, default=50)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--kind')
    arguments = parser.parse_args()
    job = Job(arguments)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix='lockstep-trials-'))
    failed = 0
    try:
        reference = {}
        for ranks in (1, 2, 3, 4):
            code, out = job.run(ranks, scratch / f'reference{ranks}')
            check(code == 0, f'the reference at {ranks} ranks ends with {code}', out)
            reference[ranks] = steps_in(out)
        for kind in (killed_at_a_stage, left_at_a_stage, killed_at_any_time, disk_full):
            if arguments.kind and kind.__name__ != arguments.kind:
                continue
            passed, note = 0, None
            for trial in range(arguments.trials):
                folder = scratch / 'c'
                try:
                    note = kind(job, folder, reference, random.Random(f'{kind.__name__} {arguments.seed + trial}'))
                    if note:
                        break
                    passed += 1
                except (AssertionError, subprocess.TimeoutExpired) as wrong:
                    failed += 1
                    print(f'{kind.__name__}, seed {arguments.seed + trial}: {wrong}', flush=True)
                shutil.rmtree(folder, ignore_errors=True)
            print(f'{kind.__name__}: {note or f"{passed} of {arguments.trials} trials as they should be"}', flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
