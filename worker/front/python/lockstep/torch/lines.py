"""Compares each operation of this process, on every process group, with those of its peers before it is issued
(collectives/lines). No rank waits for the comparison."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NoReturn, Optional, Set, Tuple

import torch
import torch.distributed as dist

from .._library import lib
from ..errors import ERRORS, Error, Finding, check, finding_of
from ._hooks import GroupMaking, group_named, groups_made
from .collectives import is_user, module_path, user_place
from .frame_tales import Told
from .kernels import NEEDS_ALL, NEEDS_NOBODY, Operation, PythonKernels
from .part import Kernels, load_part
from .rendezvous import meeting_place

_log = logging.getLogger("lockstep.torch")
#: Seconds between two checks whether a wait can end.
_LOOK = 0.02
#: The key under which the tales of frame_tales.py are posted.
_TALES = lib.fingerprint_of(b"frames")


class Lines:
    """The lines of this process. From the construction of this object on, the process posts its operations.
    Construction is collective over the ranks that `exchange` reaches."""

    def __init__(self, exchange: Callable[[str], List[str]], watched: Any, watching: Any,
                 asked: Callable[[str, str], None], before: Callable[[str, str], bool], after: Callable[[str, str], bool],
                 patience: float, audits: bool,
                 explained: Callable[[Finding], str], apart: Callable[[str], None],
                 compiling: Callable[[], bool]) -> None:
        """`exchange`: sends this rank's word and returns the words of all ranks, by rank of the job. Hosts must meet
        within `patience` seconds. The calling thread's operations on the process group `watched` are reported to
        `watching`, the library's group of the same ranks (None: no such group). `asked`(what, place): the `before` of
        Part.install(). `before`, `after`: see PythonKernels. `audits`: errors are only logged; nothing is raised, and
        no process is ended. `explained`: returns what is known of an error beyond its text. `apart`: called with each
        report of equal operations at different places. `compiling`: returns whether a peer is compiling."""
        self._apart, self._apart_told = apart, 0
        self._audits, self._explained = audits, explained
        self._explanations: Dict[str, Error] = {}  # explained errors, by their text
        self._audited: Set[str] = set()            # texts of errors that have been logged
        self._looking = threading.Lock()           # guards _apart_told
        self._votes: Dict[Tuple[int, Tuple[int, ...], str], ContextManager[None]] = {}
        self._start = 0  # see _start_now()
        self._last: Optional[Error] = None  # the error raised last
        self._world: Any = dist.group.WORLD
        self._patience = patience
        code, self._handle = lib.lines_open(dist.get_rank())
        check(code)
        code, _ = lib.lines_join(self._handle, exchange(lib.lines_place(self._handle)))
        check(code)
        self._meet(exchange)
        self.look_for_threads()
        part = load_part()
        if part is None and dist.get_rank() == 0:
            _log.warning("lockstep.torch: this package has no part for torch %s, so that each eager collective takes some "
                         "40 us more, and a wait that cannot end is ended by torch or by the deadline; scripts/torch-lines "
                         "builds it", torch.__version__)
        #: True if all waits of this process in collectives are posted, and are ended if they cannot complete.
        self.sees_waits = part is not None and dist.get_backend() == "gloo"
        if self.sees_waits:  # then the watchdog of `watching` need not know of the operations
            watching = None
        self.kernels: Kernels
        if part is None:
            self.kernels = PythonKernels(self._handle, self._group, watched.group_name, before, after, self._error, self._look_apart)
        else:
            part.install(lib, self._handle, watching or 0, watched.group_name, self._group, self._error, is_user, module_path, asked,
                         self.look_for_threads, self._look_apart, compiling)
            self.kernels = part
        self.kernels.marks.audits = int(audits)
        self._group_making = GroupMaking(self._making)

    def _error(self) -> Error:
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
            if self._audits and found.finding.text not in self._audited:
                self._audited.add(found.finding.text)
                _log.warning("%s", text)
        self._last = ERRORS[known.code](known.finding)
        return self._last

    def within(self, error: BaseException) -> Optional[Error]:
        """Returns the error raised last, if `error` is an exception of torch that contains its text (from a hook of
        DDP)."""
        return self._last if self._last is not None and str(self._last) in str(error) else None

    def voting(self, members: List[int], name: str) -> ContextManager[None]:
        """Returns a context in which peers see that this rank waits for `members` in a vote on `name`."""
        key = (self._start_now(), tuple(members), name)
        known = self._votes.get(key)
        if known is None:
            known = self._votes[key] = _Vote(self, members, name) if len(members) > 1 else contextlib.nullcontext()
        return known

    def _look_apart(self) -> None:
        with self._looking:
            numbers = range(self._apart_told + 1, lib.lines_apart(self._handle) + 1)
            self._apart_told += len(numbers)
        for number in numbers:
            self._apart(lib.lines_apart_text(self._handle, number))

    def tell(self, tale: Told) -> None:
        """Posts a tale of this rank's frames for peers."""
        lib.lines_tell(self._handle, _TALES, Operation(  # if there is no room to post it, peers only know less
            tale.frame, tale.digest, tale.about, tale.graph, needs=NEEDS_NOBODY, to=tale.numbers))

    def times_told(self, rank: int) -> int:
        """Returns how many tales a rank has posted."""
        code, told = lib.lines_told(self._handle, _TALES, rank, 0)
        check(code)
        return int(told[0])

    def told(self, rank: int, number: int) -> Optional[Told]:
        """Returns tale `number` (from 1) of a rank; None: the tale is not kept."""
        code, (_, frame, digest, about, graph, numbers) = lib.lines_told(self._handle, _TALES, rank, number)
        check(code)
        return Told(frame, digest, about, graph, numbers) if frame else None

    def _meet(self, exchange: Callable[[str], List[str]]) -> None:
        """Connects the hosts, if there are several: the lowest rank of each host then sends the posts of its host to
        the lowest ranks of the other hosts."""
        code, head = lib.lines_head(self._handle)
        heads = [int(word) if word else -1 for word in exchange(str(head) if code == 0 else f"! {_error()}")]
        first = min(head for head in heads if head >= 0)
        if set(heads) <= {-1, first}:
            return
        at, secret = exchange(meeting_place() if dist.get_rank() == first else "-")[first].split()
        check(lib.lines_meet(self._handle, heads, at, secret, self._patience))
        atexit.register(self.leave)

    def leave(self) -> None:
        """Stops sending posts to other hosts."""
        atexit.unregister(self.leave)
        lib.lines_leave(self._handle)

    @contextlib.contextmanager
    def _making(self, ranks: List[int], come: List[int], counted: Optional[int]) -> Iterator[None]:
        """Wraps the call that makes a process group. Posts the call as an operation of the ranks that make it, `come`,
        and then as an operation of the group's members, `ranks`, which wait for each other. They wait in C++, where
        nothing can be raised, so a wait that cannot complete ends this process. `counted`: the count that GroupMaking
        passes to `around`."""
        which = "" if counted is None else f", process group {counted + 1} of this rank"
        told = Operation(f"new_group of {_phrase(ranks)}{which}", place=user_place(sys._getframe(1)), needs=NEEDS_NOBODY)
        self._issue(self._line(come, f"groups made by {_phrase(come)}"), told)
        if dist.get_rank() not in ranks:
            yield
            return
        group = self._line(ranks, f"groups made of {_phrase(ranks)}")
        number = self._issue(group, told._replace(needs=NEEDS_ALL))
        if number is None:
            yield
            return
        code, wait = lib.wait_begin(self._handle, group, number)
        check(code)
        over = threading.Event()

        def look() -> None:
            while not over.wait(_LOOK):
                self.look_for_threads()
                if lib.wait_look(wait) == 0 or over.is_set():
                    continue
                error = self._error()
                if not self._audits:
                    self.end(error)
        looking = threading.Thread(target=look, name="lockstep new_group", daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()
            lib.wait_end(wait)
        lib.lines_issued(self._handle, group)

    def _line(self, members: List[int], name: str) -> int:
        """Returns the number of the line with this name, of the ranks `members`, that belongs to no process group."""
        return self._made(f"{self._start_now()}\n{name}", members, name)

    def _made(self, key: str, members: List[int], name: str) -> int:
        """Declares the line with this key, unless it has been declared, and returns its number."""
        code, line = lib.lines_group(self._handle, lib.fingerprint_of(key.encode()), members, name)
        check(code)
        return int(line)

    def _issue(self, line: int, operation: Operation) -> Optional[int]:
        """Posts an operation and returns its number on the line. Raises if it is refused; under audit returns None."""
        code, number = lib.lines_issue(self._handle, line, operation)
        if code == 0:
            return int(number)
        error = self._error()
        if not self._audits:
            raise error
        return None

    def _group(self, name: str, device: str, sender: int, receiver: int, tag: int) -> int:
        process_group = group_named(name)
        if process_group is None:
            return -1
        start = self._start_now()
        ranks = list(dist.get_process_group_ranks(process_group))
        called = title_of(process_group)
        if device != "cpu":
            called += f" on {device}"
        members, pair = ranks, ""
        if sender >= 0:
            members = [ranks[sender], ranks[receiver]]
            pair = f"{sender} {receiver} {tag}"
            called = f"the sends from rank {members[0]} to rank {members[1]} with tag {tag} in {called}"
        return self._made(f"{start}\n{name}\n{ranks}\n{device}\n{pair}", members, called)

    def _start_now(self) -> int:
        """Returns how often torch.distributed has been started again so far. This number is part of the keys of lines,
        because groups of different starts may have equal names."""
        if dist.group.WORLD is not self._world:
            self._world = dist.group.WORLD
            self._start += 1
        return self._start

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

    def end(self, error: Error) -> NoReturn:
        """Ends this process, as the watchdog would. For places where nothing can be raised."""
        self.gone(str(error))
        print(f"lockstep: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(error.exit_code)

    def forget(self) -> None:
        """Called in a copy of the process after a fork: the copy takes no part."""
        atexit.unregister(self.leave)
        self._group_making.remove()
        self.kernels.forget()

    def remove(self) -> Optional[Error]:
        """Stops posting. Peers can read the posts until the process ends. Returns the error of an operation that this
        rank issued before another rank refused it, if there is one and it has not been raised."""
        self._group_making.remove()
        self.kernels.remove()
        if lib.lines_finish(self._handle) == 0:
            return None
        error = self._error()
        return None if self._audits else error


class _Vote:
    """A context in which peers see that this rank waits in a vote. Used for one vote at a time."""

    def __init__(self, lines: Lines, members: List[int], name: str) -> None:
        self._lines, self._line = lines, lines._line(members, f"votes of {_phrase(members)}")
        self._operation = Operation("vote", place=name, paired=1)
        self._wait = 0

    def __enter__(self) -> None:
        lines, line = self._lines, self._line
        number = lines._issue(line, self._operation)
        if number is not None:
            lib.lines_issued(lines._handle, line)
            code, self._wait = lib.wait_begin(lines._handle, line, number)
            check(code)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        lib.wait_end(self._wait)
        self._wait = 0


def _error() -> Error:
    finding = finding_of(lib.last_error())
    return ERRORS[finding.code](finding)


def title_of(process_group: Any) -> str:
    """Returns the name of a process group in reports: "the group tp (ranks 0-3)"."""
    ranks = list(dist.get_process_group_ranks(process_group))
    alike = [made for made, members in groups_made() if list(members) == ranks]
    number = next((i for i, made in enumerate(alike) if made is process_group), 0)
    described = str(getattr(process_group, "group_desc", "") or "")
    dim = described[len("mesh_"):] if described.startswith("mesh_") else described
    return (f"the group of {_phrase(ranks)}" if dim in ("", "undefined", "default_pg") else
            f"the group {dim} ({_phrase(ranks)})") + (f" (number {number + 1} of these)" if len(alike) > 1 else "")


def _phrase(ranks: List[int]) -> str:
    """Returns "ranks 0-3"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return "ranks " + ",".join(map(str, ranks))
