"""The name of a compiled frame that is about to run. Its versions and its code cannot be seen by then, but
the place that calls it can, and it is the same whether the frame is compiled or found in a cache."""

from __future__ import annotations

import linecache
import re
import types
from typing import Any, Optional

from ._hooks import called_module, wrapped_function

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.*)_at_\d+$")


def frame_name(caller: types.FrameType) -> str:
    """Of the frame that `caller` is about to run: "train_step", "Block.forward", "helper (line 24 of f)",
    or "f after line 24" for what comes after a graph break."""
    function = wrapped_function(caller)
    if function is not None:
        function = _inner(function)
        owner = getattr(function, "__self__", None)
        if owner is not None and hasattr(owner, "forward"):
            return f"{type(owner).__qualname__}.forward"
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    module = called_module(caller)
    if module is not None:
        return f"{type(module).__qualname__}.forward"
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
    """What torch.compile was given, where it has put a function of its own around it."""
    if getattr(function, "__qualname__", "").startswith("wrap_inline."):
        for cell in function.__closure__ or ():
            if callable(cell.cell_contents):
                return cell.cell_contents
    return function


def _called(caller: types.FrameType) -> Optional[str]:
    """What the caller's own text calls there; None: the compiler has made this call."""
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
