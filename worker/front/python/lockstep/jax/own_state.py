"""What this process does: whether its watched thread moves on, waits inside XLA, or is still."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Iterator

from . import _hooks
from .standstill import MAY_WAIT, MOVES, STILL, WAITS, Rank
from .waits import Stacks, some_thread_runs

#: Of the looks at a process that does nothing, at most one in this many shows a thread that runs, or this share of the
#: time is the process's processor time. (Connections and timers wake threads now and then.)
_BUSY = 4
_SHARE = 0.1
#: Looks that a proof needs: a machine that stood still has had fewer.
_LOOKS = 5


class OwnState:
    """The state of this process, from looks at it."""

    def __init__(self, watched: int, native: int) -> None:
        """`watched`, `native`: the watched thread, by both of its numbers."""
        self._watched, self._native, self._stacks = watched, native, Stacks()
        #: The platform of the computations of several processes.
        self.platform = ""
        self._before: Any = None
        self._begun = self._used = 0.0
        self._looks = self._busy = 0
        self._excused = False

    def look(self, now: float) -> Rank:
        """Returns what the process does, and since when."""
        frame = sys._current_frames().get(self._watched)
        at = None if frame is None else (id(frame), frame.f_code, frame.f_lasti)
        if frame is None or at != self._before or self._excused:
            return self._moves(at, now)
        self._looks += 1
        file = "" if _hooks.is_of_python(frame) else self._stacks.waits_in(self._native)
        self._busy += some_thread_runs(threading.get_native_id())
        used = time.process_time() - time.thread_time() - self._used
        is_idle = self._busy * _BUSY <= self._looks and used <= _SHARE * (now - self._begun)
        if not is_idle and not _hooks.is_native(file):
            return self._moves(at, now)
        place = _hooks.user_place(frame)
        if _hooks.is_native(file):
            proven = self._looks >= _LOOKS and is_idle and self.platform == "cpu" and not self._is_called_back()
            return Rank(WAITS if proven else MAY_WAIT, place, self._begun)
        return Rank(STILL, place, self._begun)

    @contextlib.contextmanager
    def excused(self) -> Iterator[None]:
        """Inside this context, the process counts as moving: it compiles, or waits for a peer that does."""
        self._excused = True
        try:
            yield
        finally:
            self._excused = False

    def shuts_down(self) -> bool:
        """Returns whether the watched thread is in the end of jax.distributed."""
        return _hooks.shuts_down(sys._current_frames().get(self._watched))

    def _moves(self, at: Any, now: float) -> Rank:
        self._before, self._begun, self._looks, self._busy = at, now, 0, 0
        self._used = time.process_time() - time.thread_time()
        return Rank(MOVES, "", now)

    def _is_called_back(self) -> bool:
        """Returns whether another thread is in a Python function that XLA has called."""
        return any(_hooks.is_inside(frame) for thread, frame in sys._current_frames().items()
                   if thread not in (self._watched, threading.get_ident()))
