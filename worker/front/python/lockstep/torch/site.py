"""Names of frames, and of compiled frames that are about to run. Just before a frame runs, torch shows neither the
frame's versions nor its code. So such a frame is named by its call site, which is the same whether the frame then
compiles or has a version."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import types
import weakref
from typing import Any, Dict, Optional, Tuple

from ._hooks import called_module, wrapped_function

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.*)_at_\d+$")


def frame_name(code: types.CodeType) -> str:
    """Returns the name of the frame with this code: "Block.forward (model.py:30)", or, after a graph break,
    "Block.forward after line 41 (model.py:30)". The name is the same on all ranks of a program."""
    *folders, own = str(getattr(code, "co_qualname", code.co_name)).split(".")
    after, resumed = "", _RESUMED.search(own)
    while resumed:
        after = after or f" after line {code.co_firstlineno}"
        own = resumed.group(1)
        resumed = _RESUMED.search(own)
    return f"{'.'.join([*folders, own])}{after} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def closure_text(closure: Any) -> str:
    """Returns the names of the functions in the cells of a closure. They distinguish frames with the same code, and are
    the same on all ranks."""
    names = []
    for cell in closure or ():
        with contextlib.suppress(ValueError):  # an empty cell
            code = getattr(cell.cell_contents, "__code__", None)
            names.append("" if code is None else frame_name(code))
    return ", ".join(names)


class FrameNames:
    """Names of frames that are about to run. Functions and modules with the same name are numbered in the order in
    which they first run, which is the same on ranks that are in step."""

    def __init__(self) -> None:
        self._known: Dict[int, Tuple[Any, str]] = {}  # by id of the function or module: a weak reference, and its name
        self._count: Dict[str, int] = {}  # by name: how many functions or modules have it

    def of(self, caller: types.FrameType) -> str:
        """Returns the name of the frame that `caller` is about to run: "train_step", "Block.forward (2)" for the second
        module of that name, "helper (line 24 of f)", or "f after line 24" after a graph break."""
        found = wrapped_function(caller)
        if found is None:
            found = called_module(caller)
        else:
            found = _inner(found)
            owner = getattr(found, "__self__", None)
            found = found if owner is None else owner
        return _place_name(caller) if found is None else self._numbered(found)

    def _numbered(self, thing: Any) -> str:
        known = self._known.get(id(thing))
        if known is not None and known[0]() is thing:
            return known[1]
        name = str(getattr(thing, "__qualname__", type(thing).__qualname__))
        if hasattr(thing, "forward"):
            name = f"{type(thing).__qualname__}.forward"
        number = self._count[name] = self._count.get(name, 0) + 1
        if number > 1:
            name = f"{name} ({number})"
        key = id(thing)
        try:
            self._known[key] = (weakref.ref(thing, lambda _: self._known.pop(key, None)), name)
        except TypeError:  # a type without weak references
            self._known[key] = (lambda: thing, name)
        return name


def _place_name(caller: types.FrameType) -> str:
    code = caller.f_code
    *folders, own = str(getattr(code, "co_qualname", code.co_name)).split(".")
    resumed = _RESUMED.search(own)
    while resumed:
        own = resumed.group(1)
        resumed = _RESUMED.search(own)
    name = ".".join([*folders, own])
    called = _called(caller)
    return f"{name} after line {caller.f_lineno}" if called is None else f"{called} (line {caller.f_lineno} of {name})"


def _inner(function: Any) -> Any:
    """Returns the function that torch.compile was given, if `function` is torch's own wrapper of it; else
    `function`."""
    if getattr(function, "__qualname__", "").startswith("wrap_inline."):
        for cell in function.__closure__ or ():
            if callable(cell.cell_contents):
                return cell.cell_contents
    return function


def _called(caller: types.FrameType) -> Optional[str]:
    """Returns the text of the call in the caller's source at its current instruction; None: no source text is known, as
    for a call that torch has made after a graph break."""
    positions: Any = getattr(caller.f_code, "co_positions", None)  # Python 3.11
    if positions is None:
        return None
    for at, (line, _, column, _) in enumerate(positions()):
        if 2 * at == caller.f_lasti:
            if line is None or column is None:
                return None
            text = linecache.getline(caller.f_code.co_filename, line).encode()[column:].decode(errors="replace")
            return text.split("(", 1)[0].strip() or "a call"
    return None
