"""Rank 0 forks a helper for a count and calls another program for the version, while the others wait in an all-reduce.

class: legal
verdict: none
ranks: 2
"""
import os
import subprocess
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def count_in_helper(until):
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        os.write(writes, str(sum(i % 7 == 0 for i in range(until))).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as told:
        count = int(told.read())
    assert os.waitpid(child, 0)[1] == 0
    return count


def number_of_program():
    done = subprocess.run([sys.executable, "-I", "-S", "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    return int(done.stdout)


for step in range(3):
    print("step", step, flush=True)
    numbers = torch.zeros(2, dtype=torch.int64)
    if rank == 0:
        numbers[0] = count_in_helper(1000 * (step + 1))
        numbers[1] = number_of_program()
    dist.all_reduce(numbers)
    print("value", numbers.tolist(), flush=True)
dist.destroy_process_group()
