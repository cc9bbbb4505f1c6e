"""What lockstep.torch uses of torch beyond its public interface, each with the versions in which it was seen."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import distributed_c10d


def default_store() -> Any:
    """The store of init_process_group. Seen in 2.15."""
    find = getattr(distributed_c10d, "_get_default_store", None)
    if find is None:
        raise RuntimeError(f"torch {torch.__version__} does not show the store of init_process_group; open "
                           "lockstep.Group() with LOCKSTEP_RENDEZVOUS, LOCKSTEP_RANK and "
                           "LOCKSTEP_WORLD_SIZE set on every rank")
    return find()
