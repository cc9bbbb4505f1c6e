"""How a job in Python ends that has something prefetched and does not end well.
usage: lockstep_end.py FOLDER_OF_PACKAGE broken|raises
    broken   the last rank breaks its prefetch while the others run the call as promised
    raises   an exception ends the program of the last rank
"""

import sys

sys.path.insert(0, sys.argv[1])
import lockstep  # noqa: E402
from mpi4py import MPI  # noqa: E402

with lockstep.Group(MPI.COMM_WORLD, deadline=20) as group:
    step = lockstep.agreed(lambda n: MPI.COMM_WORLD.Barrier(), group, name="step")
    last = group.rank == group.size - 1
    step(3)
    step.prefetch(3)
    group.poke()
    if last and sys.argv[2] == "raises":
        raise OSError("no such shard")
    try:
        step(4 if last else 3)
    except lockstep.Error as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
