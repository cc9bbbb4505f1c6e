"""A training loop in Python whose ranks agree before each step: least squares with numpy and mpi4py on
batches whose sizes differ between ranks. lockstep.agreed() wraps the step; nothing else changes.

    PYTHONPATH=build/release/lib mpirun -n 4 /usr/bin/python3 examples/python_loop.py

Exit code 0 if the model was learnt, all ranks compiled the same versions, a call of another function on one
rank was an error on all ranks instead of a hang, and all ranks went on after one had failed.
"""

import sys

import numpy
from mpi4py import MPI

import lockstep

FEATURES = 4
TRUTH = numpy.array([1.0, -2.0, 0.5, 3.0])


def compile_step(entry, decision):
    """Stands for a compiler: returns a version of the step for the sizes that the ranks decided on."""
    rows = decision.size("x", 0)

    def version(x, y, weights):
        if isinstance(rows, int):
            assert x.shape[0] == rows, "a static version runs on its own size only"
        error = x @ weights - y
        return x.T @ error, float(error @ error)

    # The ranks compare this text: all must have compiled the same version.
    version.program_text = f"step {entry}: rows {rows if isinstance(rows, int) else rows.name}"
    return version


def batches(rank):
    """Rank r has 60 + 3r batches of 1 to 9 rows."""
    random = numpy.random.default_rng(rank)
    for _ in range(60 + 3 * rank):
        x = random.normal(size=(int(random.integers(1, 10)), FEATURES))
        yield x, x @ TRUTH


def train(group, comm):
    step = lockstep.agreed(lambda x, y, weights: None, group, name="step", build=compile_step)
    weights = numpy.zeros(FEATURES)
    data = batches(group.rank)
    steps, compiled = 0, 0
    while True:
        batch = next(data, None)
        if not group.more(batch is not None):
            break
        # A rank without data makes the same call with an empty batch.
        x, y = batch if batch is not None else (numpy.zeros((0, FEATURES)), numpy.zeros(0))
        gradient, loss = step(x, y, weights)
        compiled += step.last.is_new
        rows = comm.allreduce(x.shape[0])
        weights -= 0.3 * comm.allreduce(gradient) / rows
        steps += 1
    return weights, steps, compiled, comm.allreduce(loss)


def goes_another_way(group):
    """One rank evaluates while the others train: without lockstep they hang in the next collective."""
    agreement = lockstep.Agreement(group, "branches")
    frames = {name: lockstep.agreed(lambda: None, group, name=name, agreement=agreement)
              for name in ("train", "evaluate")}
    last = group.rank == group.size - 1
    try:
        frames["evaluate" if last else "train"]()
    except lockstep.FrameMismatch as error:
        return str(error)
    return None


def goes_on_after_an_error(group):
    """One rank cannot read its batch: the others get the reason in the same call, and all go on."""
    step = lockstep.agreed(lambda rows: rows, group, name="after an error")
    said = None
    try:
        if group.rank == group.size - 1:
            raise OSError("no such shard")
        step(1)
    except (OSError, lockstep.RuntimeAssert) as error:
        said = str(error)
        group.resync(error)
    return said, step(2)


def main():
    comm = MPI.COMM_WORLD
    with lockstep.Group(comm, deadline=30) as group:
        weights, steps, compiled, loss = train(group, comm)
        mismatch = goes_another_way(group)
        told, rows = goes_on_after_an_error(group)
        if group.rank == 0:
            print(f"{steps} steps, {compiled} versions compiled, loss of the last step {loss:.1e}")
            print("a rank that goes another way:", mismatch)
            print("a rank that fails alone:", told)
        good = (numpy.allclose(weights, TRUTH, atol=1e-3) and steps == 60 + 3 * (group.size - 1)
                and compiled <= 3 and (mismatch is not None) == (group.size > 1)
                and "no such shard" in told and rows == 2)
        return 0 if group.all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
