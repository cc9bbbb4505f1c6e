"""Threads of numerical libraries, on a host that several ranks share."""

from __future__ import annotations

import os
from typing import Optional

_SAID = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def share_of_cores(ranks: int) -> Optional[int]:
    """Returns the number of threads for each of `ranks` ranks on this host; None: the environment sets the number."""
    if any(name in os.environ for name in _SAID):
        return None
    cores = os.cpu_count() or 1
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores  # may be this rank's share
    return max(1, min(bound, cores // ranks))


def limit_threads(ranks: int) -> None:
    """Limits the threads of this process's OpenMP and BLAS libraries to this rank's share of the cores, on a host with
    `ranks` ranks. Does nothing without threadpoolctl, or if the environment sets the number."""
    share = share_of_cores(ranks)
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return
    for library in ThreadpoolController().lib_controllers if share is not None else ():
        told = library.internal_api == "openblas" and "OPENBLAS_NUM_THREADS" in os.environ
        if library.num_threads > share and not told:
            library.set_num_threads(share)


def ranks_of_launch() -> int:
    """Returns the number of ranks on this host that Open MPI, MPICH or torchrun launched; 1: no such launcher."""
    for name in ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"):
        found = os.environ.get(name, "")
        if found.isdigit() and int(found) > 0:
            return int(found)
    return 1
