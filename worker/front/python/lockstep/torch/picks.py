"""Which kernels the ranks' autotuners pick: each rank measures for itself, and noise makes them pick differently. All
ranks that tune an operation take the measurements of the rank that finished first, by one exchange with the store of
torch.distributed: no rank waits, because a rank that has the kernel in its cache does not come."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Callable, Dict, List

from ..errors import said
from ._hooks import default_store, pick_feedbacks

_STORE = "lockstep/picks/"


class Picks:
    """The picks of one rank. `adopts`: it takes those of the rank that finished first; else a pick that differs is told
    to `tell`, once."""

    def __init__(self, rank: int, adopts: bool, tell: Callable[[str], None]) -> None:
        self._rank, self._adopts, self._tell = rank, adopts, tell
        self._told: List[str] = []
        self._feedbacks: Any = None  # inductor's list of functions that see measurements, once this object is in it

    def begin(self) -> None:
        """Called when a compile starts: inductor is loaded then, if the program uses it."""
        if self._feedbacks is None:
            self._feedbacks = pick_feedbacks(sys.modules.get("torch._inductor.select_algorithm"))
            if self._feedbacks is not None:
                self._feedbacks.append(self._measured)

    def end(self) -> None:
        if self._feedbacks is not None and self._measured in self._feedbacks:
            self._feedbacks.remove(self._measured)

    def _measured(self, times: Dict[Any, float], name: str, inputs: List[Any], *_: Any) -> None:
        """Inductor has measured its choices for an operation, and picks the one with the least of `times`."""
        if not times:
            return
        try:
            what = f"{name} of " + ", ".join(
                f"{node.get_dtype()} {list(node.get_size())} by {list(node.get_stride())} on {node.get_device().type}"
                for node in inputs)
            own = {choice.hash_key(): time for choice, time in times.items()}
            first = json.loads(default_store().compare_set(_STORE + what, "", json.dumps([self._rank, own])))
            self._compare(what, times, own, *first)
        except Exception as error:  # a pick is no reason to fail
            self._say(f"the kernel picked for {name} cannot be compared with that of other ranks: {said(error)}")

    def _compare(self, what: str, times: Dict[Any, float], own: Dict[str, float], rank: int, first: Dict[str, float]) -> None:
        adopted = {choice: first.get(choice.hash_key(), math.inf) for choice in times}
        if rank != self._rank and self._adopts and min(adopted.values()) < math.inf:
            times.update(adopted)
        elif rank != self._rank and (self._adopts or min(first, key=lambda key: first[key]) != min(own, key=lambda key: own[key])):
            self._say(f"rank {rank} picks the kernel {_best(first)} for {what}, and rank {self._rank} picks {_best(own)}"
                      + (", which have no choice in common" if self._adopts else
                         "; lockstep.torch.watch(autotune=True) makes all ranks take one"))

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.append(text)
            self._tell(text)


def _best(times: Dict[str, float]) -> str:
    """Returns "bmm-cd5psz (7.99 ms)"."""
    key = min(times, key=lambda key: times[key])
    name, _, digest = key.rpartition("-")
    return f"{name}-{digest[:8]} ({times[key]:.3g} ms)"
