"""One call at a time, for objects that several threads of a program share."""

from __future__ import annotations

import threading
from typing import Any

from .errors import BadInput, Finding


class Turns:
    """A context manager that holds the turn for a call: from before the call touches anything of this package until the
    call has returned. A call of another thread in between raises BadInput, which names both threads, and changes
    nothing. A thread that has the turn may take it again, for a call within a call."""

    def __init__(self, of: str) -> None:
        self._of = of  # "a group"
        self._lock = threading.RLock()
        self._thread = 0  # the thread that took the turn last

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise self._refused()
        self._thread = threading.get_ident()

    def __exit__(self, *error: Any) -> None:
        self._lock.release()

    def _refused(self) -> BadInput:
        by = self._thread
        other = next((repr(thread.name) for thread in threading.enumerate() if thread.ident == by), f"number {by}")
        text = (f"thread {threading.current_thread().name!r} makes a call while one of thread {other} is under way, "
                f"and {self._of} takes one call at a time; make the calls of all threads one after the other, with one "
                "lock around each, or on one thread")
        return BadInput(Finding("BAD_INPUT", text, "", (), f"BAD_INPUT: {text}"))
