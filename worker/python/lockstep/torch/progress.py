"""Whether this process makes progress, for the group's watchdog: its main thread runs on, or compiles."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Any, Optional, Tuple

from ..group import Group


class Progress:
    """A thread that renews the lease of a rank whose own thread is seen at another place of its program
    than before. A rank that waits in one call (a collective without its partners) gets none, so that it is
    named once the deadline of the group has passed; one that compiles has `compile_deadline` seconds."""

    def __init__(self, group: Group, deadline: float, compile_deadline: float) -> None:
        self._group, self._deadline, self._compile_deadline = group, deadline, compile_deadline
        self._watched = threading.get_ident()
        self._compiling_until: Optional[float] = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lockstep progress", daemon=True)
        self._thread.start()

    def compile_starts(self) -> None:
        self._compiling_until = time.monotonic() + self._compile_deadline

    def compile_ends(self) -> None:
        self._compiling_until = None

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        before: Any = None
        while not self._over.wait(self._deadline / 8):
            until, now = self._compiling_until, self._place()
            if now != before or (until is not None and time.monotonic() < until):
                self._group.busy(self._deadline / 2)
            elif until is None:
                self._group.stalls()
            before = now

    def _place(self) -> Optional[Tuple[int, types.CodeType, int]]:
        frame = sys._current_frames().get(self._watched)
        return None if frame is None else (id(frame), frame.f_code, frame.f_lasti)
