"""Threads of numerical libraries, on a host that several ranks share."""

from __future__ import annotations

import os
from typing import Optional

_SAID = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def share_of_cores(ranks: int) -> Optional[int]:
    """How many threads a rank should have, of so many on this host; None: the environment says how many."""
    if any(name in os.environ for name in _SAID):
        return None
    cores = os.cpu_count() or 1
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores  # perhaps to its share
    return max(1, min(bound, cores // ranks))


def limit_threads(ranks: int) -> None:
    """Of the OpenMP and BLAS libraries that this process has loaded: not more than this rank's share of the cores,
    on a host with so many ranks. By threadpoolctl; without it, or where the environment says how many, nothing."""
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
    """On this host, of Open MPI's, MPICH's or torchrun's launch; 1 where none of them has started this process."""
    for name in ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"):
        found = os.environ.get(name, "")
        if found.isdigit() and int(found) > 0:
            return int(found)
    return 1
