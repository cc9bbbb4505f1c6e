"""Compares each operation of this process, on every process group, with those of its peers before it is issued
(collectives/lines). No rank waits for the comparison."""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import threading
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._library import lib
from ..errors import Error, Finding, check
from ..lines import NEEDS_ALL, NEEDS_NOBODY, Lines, Operation
from ..reports import phrase
from ._hooks import GroupMaking, group_named, groups_made
from .collectives import is_user, module_path, user_place
from .frame_tales import Told
from .kernels import PythonKernels
from .part import Kernels, load_part
from .rendezvous import place_to_meet

_log = logging.getLogger("lockstep.torch")
#: Seconds between two checks whether a wait can end.
_LOOK = 0.02
#: The key under which the tales of frame_tales.py are posted.
_TALES = lib.fingerprint_of(b"frames")


class TorchLines(Lines):
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
        self._votes: Dict[Tuple[int, Tuple[int, ...], str], ContextManager[None]] = {}
        self._start = 0  # see _start_now()
        self._last: Optional[Error] = None  # the error raised last
        self._world: Any = dist.group.WORLD
        super().__init__(dist.get_rank(), exchange, place_to_meet, patience, audits, explained, apart, "lockstep.torch")
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
            self.kernels = PythonKernels(self._handle, self._group, watched.group_name, before, after, self.error, self.look_apart)
        else:
            part.install(lib, self._handle, watching or 0, watched.group_name, self._group, self.error, is_user, module_path, asked,
                         self.look_for_threads, self.look_apart, compiling)
            self.kernels = part
        self.kernels.marks.audits = int(audits)
        self._group_making = GroupMaking(self._making)

    def error(self) -> Error:
        self._last = super().error()
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

    def tell_tale(self, tale: Told) -> None:
        """Posts a tale of this rank's frames for peers."""
        self.tell(_TALES, Operation(
            tale.frame, tale.digest, tale.about, tale.graph, needs=NEEDS_NOBODY, to=tale.numbers))

    def tales_told(self, rank: int) -> int:
        """Returns how many tales a rank has posted."""
        return self.times_told(_TALES, rank)

    def tale(self, rank: int, number: int) -> Optional[Told]:
        """Returns tale `number` (from 1) of a rank; None: the tale is not kept."""
        post = self.told(_TALES, rank, number)
        return None if post is None else Told(post.kind, post.dtype, post.reduction, post.place, tuple(post.numbers))

    @contextlib.contextmanager
    def _making(self, ranks: List[int], come: List[int], counted: Optional[int]) -> Iterator[None]:
        """Wraps the call that makes a process group. Posts the call as an operation of the ranks that make it, `come`,
        and then as an operation of the group's members, `ranks`, which wait for each other. They wait in C++, where
        nothing can be raised, so a wait that cannot complete ends this process. `counted`: the count that GroupMaking
        passes to `around`."""
        which = "" if counted is None else f", process group {counted + 1} of this rank"
        told = Operation(f"new_group of {phrase(ranks)}{which}", place=user_place(sys._getframe(1)), needs=NEEDS_NOBODY)
        self.issue(self._line(come, f"groups made by {phrase(come)}"), told)
        if dist.get_rank() not in ranks:
            yield
            return
        group = self._line(ranks, f"groups made of {phrase(ranks)}")
        number = self.issue(group, told._replace(needs=NEEDS_ALL))
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
                error = self.error()
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
        return self.made(f"{self._start_now()}\n{name}", members, name)

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
        return self.made(f"{start}\n{name}\n{ranks}\n{device}\n{pair}", members, called)

    def _start_now(self) -> int:
        """Returns how often torch.distributed has been started again so far. This number is part of the keys of lines,
        because groups of different starts may have equal names."""
        if dist.group.WORLD is not self._world:
            self._world = dist.group.WORLD
            self._start += 1
        return self._start

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
        return self.finish()


class _Vote:
    """A context in which peers see that this rank waits in a vote. Used for one vote at a time."""

    def __init__(self, lines: TorchLines, members: List[int], name: str) -> None:
        self._lines, self._line = lines, lines._line(members, f"votes of {phrase(members)}")
        self._operation = Operation("vote", place=name, paired=1)
        self._wait = 0

    def __enter__(self) -> None:
        lines, line = self._lines, self._line
        number = lines.issue(line, self._operation)
        if number is not None:
            lib.lines_issued(lines._handle, line)
            code, self._wait = lib.wait_begin(lines._handle, line, number)
            check(code)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        lib.wait_end(self._wait)
        self._wait = 0


def title_of(process_group: Any) -> str:
    """Returns the name of a process group in reports: "the group tp (ranks 0-3)"."""
    ranks = list(dist.get_process_group_ranks(process_group))
    alike = [made for made, members in groups_made() if list(members) == ranks]
    number = next((i for i, made in enumerate(alike) if made is process_group), 0)
    described = str(getattr(process_group, "group_desc", "") or "")
    dim = described[len("mesh_"):] if described.startswith("mesh_") else described
    return (f"the group of {phrase(ranks)}" if dim in ("", "undefined", "default_pg") else
            f"the group {dim} ({phrase(ranks)})") + (f" (number {number + 1} of these)" if len(alike) > 1 else "")
