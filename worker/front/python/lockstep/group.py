"""The ranks that agree."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Callable, ClassVar, List, Optional, Tuple

from ._library import NUMBERS, lib
from .errors import BadInput, Error, check, said
from .threads import limit_threads, ranks_of_launch
from .turns import Turns

if TYPE_CHECKING:
    from .agreement import Agreement


class Group:
    """The ranks that agree. Construction is collective. `comm` is an mpi4py communicator, which is duplicated and
    otherwise not used; None: the processes that meet at LOCKSTEP_RENDEZVOUS, else all that a launcher (such as mpirun
    or srun) has started together, else this process. `alone`: this process only, whatever has started it.
    If a launcher has started several ranks on this host, each rank limits the threads of its OpenMP and BLAS libraries
    to its share of the cores (limit_threads()). As a context manager the group finishes at the end of the block,
    collectively. If an exception leaves the block, the other ranks get Gone in their next call.

    The group, with its agreements, takes one call at a time, from any thread: a call made during a call of another
    thread raises BadInput, and changes nothing. All ranks must make their calls in the same order, so a program with
    threads has to ensure this order."""

    #: The groups of this process that are not closed, in the order in which they were opened.
    opened: ClassVar[List["Group"]] = []

    def __init__(self, comm: Any = None, deadline: float = 60.0,
                 report_folder: Optional[str] = None, *, alone: bool = False) -> None:
        if alone and comm is not None:
            raise ValueError("a group of this process alone has no communicator; leave one of the two out")
        self._handle = 0
        self._process = os.getpid()
        self._agreements: List[Agreement] = []
        self._told_busy: Optional[Callable[[float], None]] = None
        self._promised = False  # True: a call has been prefetched
        self._ends_apart = False  # True: each rank ends by itself, without a collective finish()
        self._turns = Turns("a group")  # for calls of the group and of its agreements
        together = os.environ.get("LOCKSTEP_RENDEZVOUS") or lib.launched() > 1
        if alone or (comm is None and not together):
            code, self._handle = lib.group_alone()
            check(code)
        else:
            address = None
            if comm is not None:
                from mpi4py import MPI
                address = MPI._addressof(comm)
            folder = None if report_folder is None else os.fsencode(report_folder)
            code, self._handle = lib.group_open(address, deadline, folder)
            check(code)
            if ranks_of_launch() > 1:
                limit_threads(ranks_of_launch())
        self.rank: int = lib.group_rank(self._handle)
        self.size: int = lib.group_size(self._handle)
        # Runs before mpi4py finalises MPI. In a forked copy of this process it does nothing.
        atexit.register(self._at_exit)
        Group.opened.append(self)

    def any(self, mine: object) -> bool:
        """Collective: whether `mine` is true on any rank."""
        return self._vote(lib.vote_any, mine)

    def all(self, mine: object) -> bool:
        """Collective: whether `mine` is true on all ranks."""
        return self._vote(lib.vote_all, mine)

    def more(self, have: object) -> bool:
        """Collective, at the head of a loop over uneven data: `have` is true while this rank has data. Returns False
        once no rank has data left."""
        return self._vote(lib.more, have)

    def settle(self) -> None:
        """Collective: raises on all ranks if any has a local error. Call it before a checkpoint."""
        with self._turns:
            check(lib.settle(self._handle))

    def trouble(self, text: str, code: str = "RUNTIME_ASSERT") -> None:
        """Reports that this rank has failed: the next collective call raises the error of `code` on all ranks. A call
        whose prefetched vote has already been cast is still made first."""
        check(lib.trouble(self._handle, NUMBERS.get(code, 0), text))

    def busy(self, seconds: float) -> None:
        """Says that this process is busy, for example compiling, and does not count as stuck for `seconds` from now."""
        check(lib.busy(self._handle, seconds))
        if self._told_busy is not None:
            self._told_busy(seconds)

    def note(self, text: str) -> None:
        """Says what this process does from now on, for the watchdog and the status page. Never waits."""
        check(lib.note(self._handle, text))

    def issues(self, text: str) -> None:
        """Says that this process is about to issue one of the program's own collectives, in which all ranks of the
        group take part. `text` begins with the collective's name. Tells the watchdog, which names ranks that do not
        issue this collective. Never waits."""
        check(lib.issues(self._handle, text))

    def stalls(self) -> None:
        """Says that the program's thread has made no progress for a while since issues(): this rank counts as waiting
        in that collective. From any thread."""
        check(lib.stalls(self._handle))

    def resync(self, error: Optional[BaseException] = None) -> None:
        """Collective, after an error on all ranks: brings ranks that made different calls into step
        again. Versions stay, prefetches are dropped. `error`: an error of this rank alone; the other ranks
        get it in the call that they are in, and this rank waits until they call this function. Raises
        FrameMismatch if some ranks are in other calls and no rank has failed; then call it again."""
        with self._turns:
            if error is not None and not isinstance(error, Error):
                self.trouble(said(error))
            check(lib.resync(self._handle))

    def poke(self) -> None:
        """Advances the vote of a prefetched call; call it now and then while the program works. Never blocks."""
        check(lib.poke(self._handle))

    def finish(self) -> None:
        """Collective: ends the job on all ranks."""
        with self._turns:
            check(lib.finish(self._handle))

    def leave(self, why: str) -> None:
        """Says that this rank ends without the others, whose next call raises Gone. If they may be running a
        prefetched call, the watchdog ends the job at once, with the reason `why` and exit code 3."""
        sys.stdout.flush()
        check(lib.leave(self._handle, why))

    def close(self) -> None:
        """Frees the group. A group that has been neither finished nor left is left first."""
        if self._handle and self._process == os.getpid():
            with self._turns:
                if self._ends_apart:
                    lib.done(self._handle)
                for agreement in self._agreements:
                    agreement._free()
                lib.group_close(self._handle)
        self._handle = 0
        if self in Group.opened:
            Group.opened.remove(self)
        atexit.unregister(self._at_exit)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is None and not self._ends_apart:
                self.finish()
            elif not isinstance(error, Error) and not self._ends_apart:
                if self._promised:  # leave() may end the process, so the exception is shown first
                    traceback.print_exception(kind, error, trace)
                self.leave(said(error))
        finally:
            self.close()

    def _vote(self, function: Callable[..., Tuple[int, int]], mine: object) -> bool:
        with self._turns:
            code, result = function(self._handle, 1 if mine else 0)
            check(code)
        return bool(result)

    def _at_exit(self) -> None:
        error = getattr(sys, "last_value", None)
        if self._handle and self._process == os.getpid() and error is not None and not self._ends_apart:
            lib.leave(self._handle, said(error))
        try:
            self.close()
        except BadInput as refused:  # a daemon thread is in a call
            if lib.leave(self._handle, said(refused)) != 0:
                lib.group_close(self._handle)  # the library ends the job
