"""Whether this process makes progress, for the group's watchdog: its main thread runs on, or compiles."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Callable, List, Optional

from ..group import Group


class Progress:
    """A thread that renews the lease of a rank whose own thread is seen at another place of its program
    than before. A rank that waits in one call (a collective without its partners) gets none, so that it is
    named once the deadline has passed; one that compiles, on any thread, has `compile_deadline` seconds."""

    def __init__(self, deadline: float, compile_deadline: float, agreeing: Callable[[], bool], waits: Callable[[], bool],
                 alive: Callable[[float], None]) -> None:
        """`agreeing`: the rank is within lockstep, which watches its own waits. `waits`: its thread waits in an operation,
        and wakes only to look. `alive`(seconds): told to those who wait in operations for this rank."""
        #: Whose watchdogs are told, too.
        self.groups: List[Group] = []
        #: Whether these are told, too, that this rank does not move on.
        self.tells_stalls = True
        self._waits, self._alive = waits, alive
        alive(deadline)
        self._agreeing = agreeing
        self._deadline, self._compile_deadline = deadline, compile_deadline
        self._watched, self._native = threading.get_ident(), threading.get_native_id()
        self._counting = threading.Lock()
        self._compiles = 0  # under way
        self._compiling_until: Optional[float] = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lockstep progress", daemon=True)
        self._thread.start()

    def compile_starts(self) -> None:
        with self._counting:
            self._compiles += 1
            self._compiling_until = time.monotonic() + self._compile_deadline
        self._busy()  # until the thread looks

    def compile_ends(self) -> None:
        with self._counting:
            self._compiles = max(self._compiles - 1, 0)
            if self._compiles == 0:
                self._compiling_until = None

    def _busy(self) -> None:
        self._alive(self._deadline / 2)
        for group in self.groups:
            group.busy(self._deadline / 2)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        before: Any = None
        while not self._over.wait(self._deadline / 8):
            until, now = self._compiling_until, self._place()
            compiles = until is not None and time.monotonic() < until
            agrees = self._agreeing()
            if agrees:
                self._alive(self._deadline / 2)
            if compiles or (now != before and not agrees):
                self._busy()
            elif until is None and now == before and self.tells_stalls:
                for group in self.groups:
                    group.stalls()
            before = now

    def _place(self) -> Any:
        """Where the thread is; and how often it has slept, for a loop of one call that waits a little."""
        frame = sys._current_frames().get(self._watched)
        return None if frame is None else (id(frame), frame.f_code, frame.f_lasti, "" if self._waits() else self._slept())

    def _slept(self) -> str:
        with contextlib.suppress(OSError), open(f"/proc/self/task/{self._native}/status") as text:
            return next((line for line in text if line.startswith("voluntary")), "")
        return ""
