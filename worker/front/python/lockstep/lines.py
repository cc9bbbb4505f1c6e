"""Posts what this process issues, and compares it with what its peers issue before it is issued (collectives/lines).
No process waits for the comparison."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Set

from ._library import lib
from .errors import ERRORS, Error, Finding, check, finding_of

NEEDS_ALL, NEEDS_ROOT, NEEDS_SENDERS, NEEDS_NOBODY = range(4)  # lockstep_needs
#: What became of a peer: lockstep_peer_state.
UNSEEN, RUNNING, FINISHED, GONE, LOST = range(5)


class Operation(NamedTuple):
    """lockstep_operation."""

    kind: str
    dtype: Optional[str] = None
    reduction: Optional[str] = None
    place: str = ""
    root: int = -1
    needs: int = NEEDS_ALL
    paired: int = 0
    elements: Sequence[int] = ()
    shape: Sequence[int] = ()
    to: Sequence[int] = ()
    of: Sequence[int] = ()


class Post(NamedTuple):
    """A post that is compared with nothing: the texts and numbers of its Operation."""

    kind: str
    dtype: str
    reduction: str
    place: str
    numbers: Sequence[int]


class Lines:
    """The lines of this process. Construction is collective over the ranks that `exchange` reaches."""

    def __init__(self, rank: int, exchange: Callable[[str], List[str]], place_to_meet: Callable[[], str], patience: float,
                 audits: bool, explained: Callable[[Finding], str], apart: Callable[[str], None], logger: str) -> None:
        """`exchange`: sends this rank's word and returns the words of all ranks, by rank of the job. `place_to_meet`:
        meeting_place() of the job's store. Hosts must meet within `patience` seconds. `audits`: errors are only logged;
        nothing is raised, and no process is ended. `explained`: returns what is known of an error beyond its text.
        `apart`: called with each report of equal operations at different places. `logger`: name of the log."""
        self._rank, self._apart, self._apart_told = rank, apart, 0
        self._audits, self._explained = audits, explained
        self._explanations: Dict[str, Error] = {}  # explained errors, by their text
        self._audited: Set[str] = set()            # texts of errors that have been logged
        self._looking = threading.Lock()           # guards _apart_told
        self._patience, self._log = patience, logging.getLogger(logger)
        code, self._handle = lib.lines_open(rank)
        check(code)
        places = exchange(lib.lines_place(self._handle))
        code, _ = lib.lines_join(self._handle, places)
        check(code)
        self._meet(exchange, place_to_meet)
        self.look_for_threads()

    def error(self) -> Error:
        """Returns the error of this thread's last call of the library, with its explanation. Under audit, logs it
        once."""
        found = _error()
        known = self._explanations.get(found.finding.text)
        if known is None:
            why = self._explained(found.finding)
            text = found.finding.text + (f" ({why})" if why else "")
            known = ERRORS[found.code](found.finding._replace(message=found.message + (f" ({why})" if why else ""), text=text))
            if why:  # without a reason, the error is explained anew next time: another thread may know the reason
                self._explanations[found.finding.text] = known
            if self._audits:
                self.log_once(found.finding.text, text)
        return ERRORS[known.code](known.finding)

    def log_once(self, key: str, text: str) -> None:
        """Logs the error `key` that is not raised, under audit: `text`, with its explanation."""
        if key not in self._audited:
            self._audited.add(key)
            self._log.warning("%s", text)

    def look_apart(self) -> None:
        """Reports equal operations at different places that have been found since the last call."""
        with self._looking:
            numbers = range(self._apart_told + 1, lib.lines_apart(self._handle) + 1)
            self._apart_told += len(numbers)
        for number in numbers:
            self._apart(lib.lines_apart_text(self._handle, number))

    def tell(self, key: Any, post: Operation) -> None:
        """Posts `post` for peers under a key (lib.fingerprint_of)."""
        lib.lines_tell(self._handle, key, post)  # if there is no room to post it, peers only know less

    def times_told(self, key: Any, rank: int) -> int:
        """Returns how many posts a rank has made under a key."""
        code, told = lib.lines_told(self._handle, key, rank, 0)
        check(code)
        return int(told[0])

    def told(self, key: Any, rank: int, number: int) -> Optional[Post]:
        """Returns post `number` (from 1) of a rank under a key; None: it is not kept."""
        code, (_, kind, dtype, reduction, place, numbers) = lib.lines_told(self._handle, key, rank, number)
        check(code)
        return Post(kind, dtype, reduction, place, numbers) if kind else None

    def _meet(self, exchange: Callable[[str], List[str]], place_to_meet: Callable[[], str]) -> None:
        """Connects the hosts, if there are several: the lowest rank of each host then sends the posts of its host to
        the lowest ranks of the other hosts."""
        code, head = lib.lines_head(self._handle)
        heads = [int(word) if word else -1 for word in exchange(str(head) if code == 0 else f"! {_error()}")]
        first = min(head for head in heads if head >= 0)
        if set(heads) <= {-1, first}:
            return
        at, secret = exchange(place_to_meet() if self._rank == first else "-")[first].split()
        check(lib.lines_meet(self._handle, heads, at, secret, self._patience))
        atexit.register(self.leave)

    def leave(self) -> None:
        """Stops sending posts to other hosts."""
        atexit.unregister(self.leave)
        lib.lines_leave(self._handle)

    def made(self, key: str, members: List[int], name: str) -> int:
        """Declares the line with this key, unless it has been declared, and returns its number."""
        code, line = lib.lines_group(self._handle, lib.fingerprint_of(key.encode()), members, name)
        check(code)
        return int(line)

    def issue(self, line: int, operation: Operation) -> Optional[int]:
        """Posts an operation and returns its number on the line. Raises if it is refused; under audit returns None."""
        code, number = lib.lines_issue(self._handle, line, operation)
        if code == 0:
            return int(number)
        error = self.error()
        if not self._audits:
            raise error
        return None

    def look_for_threads(self) -> None:
        """Posts whether the program has Python threads that may still issue something."""
        beside = any(thread is not threading.main_thread() and not thread.name.startswith("lockstep")
                     for thread in threading.enumerate())
        lib.lines_threads_beside(self._handle, beside)

    def deadline(self, seconds: float) -> None:
        """Sets the time after which a rank that others wait for is named, if it does not call alive()."""
        lib.lines_deadline(self._handle, seconds)

    def alive(self, seconds: float) -> None:
        """Says that this process counts as making progress for `seconds` from now."""
        lib.lines_alive(self._handle, seconds)

    def gone(self, text: str) -> None:
        """Says that this process ends by a failure, and issues nothing more."""
        lib.lines_gone(self._handle, text)

    def end(self, error: Error, before_end: Callable[[], None] = lambda: None) -> NoReturn:
        """Ends this process, as the watchdog would. For places where nothing can be raised. `before_end` is called
        after the report."""
        self.gone(str(error))
        print(f"lockstep: {error}", file=sys.stderr, flush=True)
        before_end()
        sys.stdout.flush()
        os._exit(error.exit_code)

    def finish(self) -> Optional[Error]:
        """Says that this process issues nothing more. Returns the error of an operation that this rank issued before
        another rank refused it, if there is one and it has not been raised."""
        if lib.lines_finish(self._handle) == 0:
            return None
        error = self.error()
        return None if self._audits else error


def pass_on(finding: Finding, report: Optional[Callable[[Finding], None]], log: logging.Logger) -> None:
    """Passes a difference that makes no rank wait to the program's `report`, else to the log."""
    if report is None:
        log.info("%s", finding.message)
        return
    try:
        report(finding)
    except Exception:  # the program goes on
        traceback.print_exc()


def _error() -> Error:
    finding = finding_of(lib.last_error())
    return ERRORS[finding.code](finding)
