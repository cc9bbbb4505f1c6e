"""The part that is built for one release of torch (native/torch_lines.cpp), as Python calls it."""

from __future__ import annotations

import ctypes
import os
import sysconfig
import types
from typing import Any, Callable, List, Optional, Tuple

import torch

from .._library import lib

_FUNCTIONS = {"issue": "lines_issue", "issued": "lines_issued", "apart": "lines_apart", "in_flight": "lines_in_flight", "arrived": "lines_arrived",
              "wait_begin": "wait_begin",
              "wait_look": "wait_look", "wait_end": "wait_end", "issues": "issues", "fingerprint_of": "fingerprint_of"}


class _Given(ctypes.Structure):
    _fields_ = [("lines", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in _FUNCTIONS),
                ("watching", ctypes.c_void_p), ("watched", ctypes.c_char_p),
                *((name, ctypes.py_object) for name in ("group", "error", "is_user", "module_path", "before", "threads", "apart_grows", "compiling"))]


class Marks(ctypes.Structure):
    """What watch.py and the kernels tell each other: `within`, calls of this package under way, what they issue is not
    noted; `asks`: `asked` is called; `noted`: how many notes there are; `waits`: the watched thread waits, and looks;
    `votes`: what is issued is noted; `audits`: errors are told and not raised; `patience`: seconds for which an operation
    waits beyond its time-out for ranks that compile."""

    _fields_ = [(name, ctypes.c_int32) for name in ("within", "asks", "noted", "waits", "votes", "audits", "patience")]


def load_part() -> Optional[Any]:
    """None: there is none for this torch."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # objects lie otherwise there
        return None
    minor = ".".join(torch.__version__.split("+", 1)[0].split(".")[:2])
    path = os.path.join(os.path.dirname(__file__), f"_lines_{minor}.so")
    if not os.path.exists(path):
        return None
    part = ctypes.PyDLL(path)
    part.lockstep_torch_lines_notes.restype = ctypes.py_object
    part.lockstep_torch_lines_marks.restype = ctypes.POINTER(Marks)
    return part


class Part:
    """Posts what this process issues, frees its waits, and notes what the watched thread issues on the watched group."""

    def __init__(self, part: Any, handle: int, group: Callable[..., int], error: Callable[[], Exception],
                 is_user: Callable[[str], bool], module_path: Callable[[Any], str], threads: Callable[[], None], watching: Any, watched: str,
                 asked: Callable[[str, str], None], apart_grows: Callable[[], None], compiling: Callable[[], bool]) -> None:
        """See native/torch_python.h. `asked`(what, place) is called before each noted operation while `marks.asks`; what
        it raises is raised there."""
        self._part = part
        functions = {name: getattr(lib, function).__self__ for name, function in _FUNCTIONS.items()}  # their addresses
        self.marks: Marks = part.lockstep_torch_lines_marks().contents
        self._given = _Given(lines=handle, group=group, error=error, is_user=is_user, module_path=module_path, watching=watching,
                             watched=watched.encode(), before=asked, threads=threads, apart_grows=apart_grows, compiling=compiling, **functions)
        part.lockstep_torch_lines_install(ctypes.byref(self._given))

    def notes(self) -> List[str]:
        """What has been noted since clear(), a line each; the place follows a tab."""
        notes: List[str] = self._part.lockstep_torch_lines_notes() if self.marks.noted else []
        return notes

    def clear(self) -> None:
        if self.marks.noted:
            self._part.lockstep_torch_lines_forget_notes()

    def runs_graph(self, code: types.CodeType, collectives: List[Tuple[str, str]]) -> None:
        """A compiled function runs a graph with these collectives, word and place, in order."""
        if collectives:
            self._part.lockstep_torch_lines_runs_graph(
                ctypes.py_object(code), "\n".join(f"{word}\t{place}" for word, place in collectives).encode())

    def forget(self) -> None:
        """In a copy of the process after a fork."""
        self._part.lockstep_torch_lines_forget()

    def end(self) -> None:
        """Python ends: nothing is posted any more, and no thread of the part needs Python."""
        self._part.lockstep_torch_lines_end()

    def remove(self) -> None:
        self._part.lockstep_torch_lines_remove()
        self.end()
