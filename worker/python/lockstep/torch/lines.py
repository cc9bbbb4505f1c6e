"""What this process issues, on every process group, compared with its peers before it is issued
(collectives/lines). Nobody waits for that."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import os
import sys
import threading
import types
from typing import Any, Callable, Iterator, List, NoReturn, Optional, Tuple

import torch
import torch.distributed as dist

from .._library import lib
from ..errors import ERRORS, Error, check, finding_of
from ._hooks import GroupMaking, group_named, groups_made, inductor_folder
from .collectives import INSIDE


_FUNCTIONS = {"issue": "lines_issue", "issued": "lines_issued", "in_flight": "lines_in_flight", "wait_begin": "wait_begin",
              "wait_look": "wait_look", "wait_end": "wait_end", "issues": "issues", "fingerprint_of": "fingerprint_of"}


#: Seconds between two looks at whether a wait can end.
_LOOK = 0.02
_NEEDS_ALL, _NEEDS_NOBODY = 0, 3  # lockstep_needs


class Operation(ctypes.Structure):
    """lockstep_operation."""

    _fields_ = [("struct_size", ctypes.c_uint32), *((name, ctypes.c_char_p) for name in
                                                    ("kind", "dtype", "reduction", "place")),
                *((name, ctypes.c_int32) for name in ("root", "needs", "paired")), ("tensors", ctypes.c_uint32),
                ("elements", ctypes.c_void_p), ("ndim", ctypes.c_uint32), ("shape", ctypes.c_void_p),
                ("to_count", ctypes.c_uint32), ("from_count", ctypes.c_uint32),
                ("to", ctypes.c_void_p), ("from", ctypes.c_void_p)]


class _Given(ctypes.Structure):
    _fields_ = [("lines", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in _FUNCTIONS),
                ("watching", ctypes.c_void_p), ("watched", ctypes.c_char_p),
                *((name, ctypes.py_object) for name in ("group", "error", "is_user", "before", "threads"))]


def _shim() -> Optional[Any]:
    """The part that was built for this torch and this Python; None: there is none."""
    minor = ".".join(torch.__version__.split("+", 1)[0].split(".")[:2])
    name = f"_lines_{minor}_{sys.implementation.cache_tag}.so"
    path = os.path.join(os.path.dirname(__file__), name)
    if not os.path.exists(path):
        return None
    shim = ctypes.PyDLL(path)
    shim.lockstep_torch_lines_notes.restype = ctypes.py_object
    shim.lockstep_torch_lines_marks.restype = ctypes.POINTER(Marks)
    return shim


class Marks(ctypes.Structure):
    """What watch.py and the kernels tell each other: `within`, calls of this package under way, what they issue is not
    noted; `asks`: `before` is called; `noted`: how many notes there are."""

    _fields_ = [("within", ctypes.c_int32), ("asks", ctypes.c_int32), ("noted", ctypes.c_int32)]


class Lines:
    """The lines of this process, from now on. Collective over the ranks that `exchange` reaches."""

    def __init__(self, shim: Any, exchange: Callable[[str], List[str]], watching: Any, watched: str,
                 before: Callable[[str, str], None]) -> None:
        """`exchange`: each rank's word, by rank of the job. Of the process group `watched`, what the calling thread
        issues is noted, and told to the handle `watching` of its ranks. `before`(what, place) is called before each of
        these while `marks.asks`; what it raises is raised there."""
        self._shim = shim
        self._start = 0  # of torch.distributed, in which this process is
        self._world: Any = dist.group.WORLD
        self._handle = ctypes.c_void_p()
        check(lib.lines_open(dist.get_rank(), ctypes.byref(self._handle)))
        words = [word.encode() for word in exchange(lib.lines_place(self._handle).decode())]
        places = (ctypes.c_char_p * len(words))(*words)
        seen = ctypes.c_size_t()
        check(lib.lines_join(self._handle, places, len(words), ctypes.byref(seen)))
        #: Ranks whose operations are compared with this one's, itself included.
        self.seen = seen.value
        self.look_for_threads()
        functions = {name: ctypes.cast(getattr(lib, function), ctypes.c_void_p)
                     for name, function in _FUNCTIONS.items()}
        self.marks: Marks = shim.lockstep_torch_lines_marks().contents
        self._given = _Given(lines=self._handle, group=self._group, error=_error, is_user=_is_user, watching=watching,
                             watched=watched.encode(), before=before, threads=self.look_for_threads, **functions)
        shim.lockstep_torch_lines_install(ctypes.byref(self._given))
        self._group_making = GroupMaking(self._making)

    @contextlib.contextmanager
    def _making(self, ranks: List[int], come: List[int]) -> Iterator[None]:
        """The call that makes a process group is an operation of those that come, and then one of its members, who wait for
        each other: in C++, where nothing can be raised, so that a wait that cannot end ends this process."""
        told = Operation(ctypes.sizeof(Operation), kind=f"new_group of {_phrase(ranks)}".encode(),
                         place=_user_line().encode(), root=-1, needs=_NEEDS_NOBODY)
        self._issue(come, f"groups made by {_phrase(come)}", told)
        if dist.get_rank() not in ranks:
            yield
            return
        told.needs = _NEEDS_ALL
        group, number = self._issue(ranks, f"groups made of {_phrase(ranks)}", told)
        wait = ctypes.c_void_p()
        check(lib.wait_begin(self._handle, group, number, ctypes.byref(wait)))
        over = threading.Event()

        def look() -> None:
            while not over.wait(_LOOK):
                self.look_for_threads()
                if lib.wait_look(wait) != 0 and not over.is_set():
                    end(_error())
        looking = threading.Thread(target=look, name="lockstep new_group", daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()
            lib.wait_end(wait)
        lib.lines_issued(self._handle, group)

    def _issue(self, members: List[int], name: str, operation: Operation) -> Tuple[int, int]:
        """On a line of these ranks that is no process group's: its number there, and the operation's."""
        text = f"{self._start_now()}\n{name}".encode()
        group, number = ctypes.c_int(), ctypes.c_uint64()
        check(lib.lines_group(self._handle, lib.fingerprint_of(text, len(text)), (ctypes.c_int32 * len(members))(*members),
                              len(members), name.encode(), ctypes.byref(group)))
        check(lib.lines_issue(self._handle, group, ctypes.byref(operation), ctypes.byref(number)))
        return group.value, number.value

    def notes(self) -> List[str]:
        """What has been noted since clear(), a line each; the place follows a tab."""
        notes: List[str] = self._shim.lockstep_torch_lines_notes() if self.marks.noted else []
        return notes

    def clear(self) -> None:
        if self.marks.noted:
            self._shim.lockstep_torch_lines_forget_notes()

    def _group(self, name: str, device: str, sender: int, receiver: int, tag: int) -> int:
        process_group = group_named(name)
        if process_group is None:
            return -1
        start = self._start_now()
        ranks = list(dist.get_process_group_ranks(process_group))
        alike = [made for made, members in groups_made() if list(members) == ranks]
        number = next((i for i, made in enumerate(alike) if made is process_group), 0)
        called = f"the group of {_phrase(ranks)}" + (f" (number {number + 1} of these)" if len(alike) > 1 else "")
        if device != "cpu":
            called += f" on {device}"
        members, pair = ranks, ""
        if sender >= 0:
            members = [ranks[sender], ranks[receiver]]
            pair = f"{sender} {receiver} {tag}"
            called = f"the sends from rank {members[0]} to rank {members[1]} with tag {tag} in {called}"
        text = f"{start}\n{name}\n{ranks}\n{device}\n{pair}".encode()
        found = ctypes.c_int()
        check(lib.lines_group(self._handle, lib.fingerprint_of(text, len(text)),
                              (ctypes.c_int32 * len(members))(*members), len(members), called.encode(),
                              ctypes.byref(found)))
        return found.value

    def _start_now(self) -> int:
        """Of torch.distributed: groups of another one may have the same names."""
        if dist.group.WORLD is not self._world:
            self._world = dist.group.WORLD
            self._start += 1
        return self._start

    def look_for_threads(self) -> None:
        """Whether the program has threads of Python that may still issue something."""
        beside = any(thread is not threading.main_thread() and not thread.name.startswith("lockstep")
                     for thread in threading.enumerate())
        lib.lines_threads_beside(self._handle, beside)

    def gone(self, text: str) -> None:
        """This process ends by a failure, and issues nothing more."""
        lib.lines_gone(self._handle, text.encode())

    def forget(self) -> None:
        """In a copy of the process after a fork: it takes no part."""
        self._group_making.remove()
        self._shim.lockstep_torch_lines_forget()

    def remove(self) -> None:
        """Nothing is posted from now on. The memory stays for those who look at it, until the process ends."""
        self._group_making.remove()
        self._shim.lockstep_torch_lines_remove()
        lib.lines_finish(self._handle)


def open_lines(exchange: Callable[[str], List[str]], watching: Any, watched: str,
               before: Callable[[str, str], None]) -> Optional[Lines]:
    """None: there is no part for this torch. Collective."""
    shim = _shim()
    return None if shim is None else Lines(shim, exchange, watching, watched, before)


def _error() -> Error:
    finding = finding_of(lib.last_error())
    return ERRORS[finding.code](finding)


def end(error: Error) -> NoReturn:
    """Where nothing can be raised: this process ends, as the watchdog would end it."""
    print(f"lockstep: {error}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(error.exit_code)


def _user_line() -> str:
    """ "train.py:41": the innermost line of the user's."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None and not _is_user(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_user(file: str) -> bool:
    return not file.startswith((*INSIDE, "<", _generated())) and os.path.dirname(file) not in _STANDARD


#: Folders of Python's own modules that call what they are given.
_STANDARD = tuple(os.path.dirname(module.__file__) for module in (contextlib, concurrent.futures))


def _generated() -> str:
    """The folder of inductor's code, where there can be any."""
    return inductor_folder() if "torch._inductor" in sys.modules else "<"


def _phrase(ranks: List[int]) -> str:
    """ "ranks 0-3" """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return "ranks " + ",".join(map(str, ranks))
