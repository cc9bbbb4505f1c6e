"""Accelerate under watch(): `with lockstep.torch.accelerate.watched(accelerator): …`."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager

from accelerate import Accelerator

from .watch import watch_where_none_is


def watched(accelerator: Accelerator, policy: Any = "recompile", process_group: Any = None, **options: Any) -> ContextManager[Any]:
    """Returns a context in which the processes of `accelerator` are watched. The context does nothing if there is one
    process only, or if the program has called watch(). The other parameters are those of watch()."""
    begun = watch_where_none_is(policy, process_group, options) if accelerator.use_distributed else None
    return contextlib.nullcontext() if begun is None else begun
