#!/usr/bin/python3
"""Upstream's exchange of a miss: every rank's dict of what it saw goes to every rank, pickled, and
every rank merges all dicts source by source (PyTorch's compiler collectives). The same over mpi4py.

One process per rank, under mpirun; rank 0 writes one JSON document. Ends with code 77 where the
way is not there. The sources are those of exchange_bench.cpp.

usage: upstream_exchange.py WAY [--sources N,N] [--seconds S] [--meet FILE] [--out FILE]
       WAY: torch (all_gather_object on gloo; needs --meet, a file that does not exist) or mpi4py
"""
import argparse
import dataclasses
import enum
import json
import os
import sys
import time


class Unset(enum.Enum):
    token = 0


class Dynamic(enum.Enum):
    token = 0


unset, dynamic = Unset.token, Dynamic.token


@dataclasses.dataclass(frozen=True)
class InferStride:
    dim: int


def merge_atom(x, y):
    if x is unset:
        return y
    if y is unset:
        return x
    return x if x == y and x is not dynamic else dynamic


def merge_tuple(xs, ys):
    if xs is unset:
        return ys
    if ys is unset:
        return xs
    if xs is dynamic or ys is dynamic or len(xs) != len(ys):
        return dynamic
    return tuple(merge_atom(x, y) for x, y in zip(xs, ys))


@dataclasses.dataclass
class Entry:
    scalar: object = unset
    size: object = unset
    stride: object = unset

    def __ior__(self, other):
        self.scalar = merge_atom(self.scalar, other.scalar)
        self.size = merge_tuple(self.size, other.size)
        self.stride = merge_tuple(self.stride, other.stride)
        return self

    def is_dynamic(self, dim):
        return self.size is dynamic or self.size[dim] is dynamic


def local_state(rank, sources):
    stride = (InferStride(1), InferStride(2), InferStride(3), 1)
    return {
        f"model.layers[{s:04d}].attention.cache.key_value.positions_and_lengths":
            Entry(dynamic, (5 + rank % 4, 16, 9 - rank % 4, 64), stride)
        for s in range(sources)
    }


def merged(states):
    """What a retrace does, source by source; the entries by name, and how many dims are dynamic."""
    entries, count = {}, 0
    for name in states[0]:
        entry = entries.setdefault(name, Entry())
        for state in states:
            if name in state:
                entry |= state[name]
        count += sum(entry.is_dynamic(dim) for dim in range(4))
    return entries, count


def torch_way(rank, size, meet):
    try:
        import torch.distributed as dist
    except ImportError:
        return None
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=size)

    def gather(mine):
        out = [None] * size
        dist.all_gather_object(out, mine)
        return out

    return gather, dist.barrier


def mpi4py_way():
    try:
        from mpi4py import MPI
    except ImportError:
        return None
    return MPI.COMM_WORLD.allgather, MPI.COMM_WORLD.Barrier


def measure(gather, barrier, rank, size, sources, seconds):
    """The slowest rank's time of each iteration, in microseconds. The dict is made beforehand, as a
    trace does along the way."""
    mine = local_state(rank, sources)
    expected = 2 * sources if size > 1 else 0

    def once():
        barrier()
        begin = time.perf_counter()
        _, count = merged(gather(mine))
        took = (time.perf_counter() - begin) * 1e6
        assert count == expected, (count, expected)
        return took

    warm = max(gather(max(once(), once())))
    count = max(5, min(200, int(seconds * 1e6 / warm)))
    return [max(each) for each in zip(*gather([once() for _ in range(count)]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=["torch", "mpi4py"])
    parser.add_argument("--sources", default="10,100,1000")
    parser.add_argument("--seconds", type=float, default=1.0, help="per number of sources")
    parser.add_argument("--meet")
    parser.add_argument("--out")
    args = parser.parse_args()
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    way = torch_way(rank, size, args.meet) if args.way == "torch" else mpi4py_way()
    if way is None:
        return 77
    samples = {n: measure(*way, rank, size, n, args.seconds)
               for n in map(int, args.sources.split(","))}
    if rank == 0 and args.out:
        with open(args.out, "w") as file:
            json.dump({"way": args.way, "ranks": size, "samples_us": samples}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
