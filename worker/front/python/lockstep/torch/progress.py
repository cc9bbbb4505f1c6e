"""Reports whether this process makes progress: its watched thread moves on, or one of its threads compiles."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Callable, List, Optional

from ..group import Group


class Progress:
    """A thread that renews this rank's lease whenever the watched thread has reached another place of its program. A
    rank that waits in one call (such as a collective that its peers do not issue) gets no lease, so it is named as
    stuck after the deadline. A rank that compiles, on any thread, is named after `compile_deadline` seconds."""

    def __init__(self, deadline: float, compile_deadline: float, agreeing: Callable[[], bool], waits: Callable[[], bool],
                 alive: Callable[[float], None]) -> None:
        """`agreeing`: returns whether this rank is in a call of lockstep, which watches its own waits. `waits`: returns
        whether the watched thread waits in an operation, and wakes only to poll. `alive`(seconds): reports progress to
        ranks that wait in operations for this rank."""
        #: Groups whose watchdogs also get the reports of progress.
        self.groups: List[Group] = []
        #: True: these groups also get a report (Group.stalls()) when this rank makes no progress.
        self.tells_stalls = True
        self._waits, self._alive = waits, alive
        alive(deadline)
        self._agreeing = agreeing
        self._deadline, self._compile_deadline = deadline, compile_deadline
        self._watched, self._native = threading.get_ident(), threading.get_native_id()
        self._counting = threading.Lock()
        self._compiles = 0  # running compiles
        self._compiling_until: Optional[float] = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lockstep progress", daemon=True)
        self._thread.start()

    def compile_starts(self) -> None:
        with self._counting:
            self._compiles += 1
            self._compiling_until = time.monotonic() + self._compile_deadline
        self._busy()  # until the thread's next check

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
        """Returns the place of the watched thread in its program, and how often the thread has slept: a loop over one
        short wait may always be at the same place, but makes progress. The sleeps of a thread that polls do not
        count."""
        frame = sys._current_frames().get(self._watched)
        return None if frame is None else (id(frame), frame.f_code, frame.f_lasti, "" if self._waits() else self._slept())

    def _slept(self) -> str:
        with contextlib.suppress(OSError), open(f"/proc/self/task/{self._native}/status") as text:
            return next((line for line in text if line.startswith("voluntary")), "")
        return ""
