"""The ranks of a test under mpirun, and the package in the folder that its first argument names."""

import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import lockstep  # noqa: E402

try:
    from mpi4py import MPI
except ImportError:
    sys.exit(f"{sys.argv[0]}: FAILED: mpi4py is missing; run scripts/setup (python3-mpi4py).")

GROUP = lockstep.Group(MPI.COMM_WORLD, deadline=30)
RANK, SIZE = GROUP.rank, GROUP.size
LAST = RANK == SIZE - 1


def run_tests():
    """The tests of the program. Ends the process: 0 if all passed, and none was skipped, on all ranks."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    outcome = unittest.TextTestRunner(verbosity=2 if RANK == 0 else 0).run(suite)
    good = GROUP.all(outcome.wasSuccessful() and outcome.testsRun > 0 and not outcome.skipped)
    GROUP.finish()
    GROUP.close()
    sys.exit(0 if good else 1)
