"""A serving loop: each rank is a replica with requests of its own, and before each step the ranks agree on what only
works if all do the same. Replaces hand-made all-reduces, which hang where a rank does not come. Needs only Python.

    PYTHONPATH=build/release/lib scripts/mpirun -n 4 /usr/bin/python3 examples/serving.py    # or run-ranks, torchrun

Exit code 0 if in every step all ranks had the same batch, took the same kernel, and replayed a graph or did not.
"""

import random
import sys
import time

import lockstep

WEIGHTS = [1, -2, 5, 3] * 16


def by_zip(row):
    return sum(x * w for x, w in zip(row, WEIGHTS))


def by_map(row):
    return sum(map(int.__mul__, row, WEIGHTS))


KERNELS = [by_zip, by_map]  # two ways to the same number; which is faster can differ between ranks by their noise


def nanoseconds(kernel, rows):
    began = time.perf_counter_ns()
    for row in rows:
        kernel(row)
    return time.perf_counter_ns() - began


def traffic(rank):
    """Rank r has 40 + 5r steps, each with 0 to 8 requests."""
    draw = random.Random(rank)
    for _ in range(40 + 5 * rank):
        yield [[draw.randrange(100) for _ in WEIGHTS] for _ in range(draw.randrange(9))]


def ahead_of(requests, group):
    """Casts this rank's votes on the next step: at least a dummy row. A rank whose traffic has ended has None."""
    return lockstep.agree_ahead("batch", group=group, max=len(requests or []) or 1, any=requests is not None)


def kernel_of(batch, rows, group):
    """Each rank measures all kernels. The word with the least time also says which kernel that was."""
    mine = min(nanoseconds(kernel, rows) * len(KERNELS) + i for i, kernel in enumerate(KERNELS))
    word, rank = lockstep.agree("kernel", group=group, argmin=mine)
    chosen = KERNELS[word % len(KERNELS)]
    others = lockstep.agree("others", group=group, sum=KERNELS[mine % len(KERNELS)] != chosen)
    if group.rank == 0:
        print(f"batch {batch}: {chosen.__name__}, in {word // len(KERNELS)} ns on rank {rank}; "
              f"{others} of {group.size} ranks alone would have taken another")
    return chosen


def serve(group):
    steps, graphs, kernels = traffic(group.rank), [], {}
    counts = {"steps": 0, "graphs": 0, "rows": 0, "padding": 0}
    coming = next(steps, None)
    ahead = ahead_of(coming, group)
    while True:
        batch, anybody = ahead.result()
        if not anybody:
            return counts
        requests = coming or []
        rows = requests + [[0] * len(WEIGHTS)] * (batch - len(requests))
        # All ranks replay a graph, or none does. A rank keeps as many graphs as it has memory for.
        replayed = lockstep.agree("graph", group=group, all=batch in graphs)
        graphs = ([batch] + [size for size in graphs if size != batch])[:3 + group.rank]
        if batch not in kernels:
            kernels[batch] = kernel_of(batch, rows, group)
        kernel = KERNELS.index(kernels[batch])
        lockstep.agree("check", group=group, equal=[batch, len(rows), replayed, kernel])  # only for this example
        coming = next(steps, None)
        ahead = ahead_of(coming, group)
        for row in rows:  # the work of this step, while the votes on the next one come in
            assert KERNELS[kernel](row) == KERNELS[1 - kernel](row)
            group.poke()
        for name, count in zip(counts, (1, replayed, batch, batch - len(requests))):
            counts[name] += count


def main():
    with lockstep.Group(deadline=30) as group:
        counts = serve(group)
        rows, padding = lockstep.agree("counts", group=group, sum=[counts["rows"], counts["padding"]])
        if group.rank == 0:
            print(f"{counts['steps']} steps, {counts['graphs']} by graphs that all ranks had; "
                  f"{padding} of {rows} rows were padding")
        good = counts["steps"] == 40 + 5 * (group.size - 1) and counts["graphs"] > 0 and padding > 0
        return 0 if group.all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
