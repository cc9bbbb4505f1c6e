"""A few whole numbers that all ranks share: the largest batch, the fastest kernel, whether all ranks can."""

from __future__ import annotations

import os
import sys
import types
from typing import Any, Dict, Optional, Tuple

from ._library import native
from .errors import check
from .group import Group

#: The user's line by code object and instruction. Keeps the code object, so that its id stays its own.
_PLACES: Dict[Tuple[int, int], Tuple[Optional[types.CodeType], str]] = {}
_NOWHERE = (None, "")
_native_agree = native.agree_words


def agree(name: str = "", *, group: Optional[Group] = None, deadline: float = 0.0, where: str = "", **words: Any) -> Any:
    """Collective. Makes a few words of each rank the group's, each by an op:

        batch = lockstep.agree(max=len(requests))
        batch, graph = lockstep.agree("step", max=len(requests), all=has_graph(len(requests)))
        time, rank = lockstep.agree("tile", argmin=nanoseconds)    # the fastest, and the lowest rank that has it
        lockstep.agree("vocabulary", equal=[rows, columns])        # the same on all ranks, or ConstantMismatch

    Ops: min, max, sum, bitand, bitor; all, any (of truth values: do this only if all ranks can); equal; argmin, argmax
    (the word, and the lowest rank that brought it; what that rank chose can be packed into the word's low digits). An
    op has a word, or a list of words for a list; at most eight words in all, of 64 bits. Returns the words in the order of the ops, without a tuple if there is one op. The votes cost a
    few microseconds on a host, and touch no GPU.

    `name`: names the words, and must be the same on all ranks; the caller's line, if it is not given. `group`: default
    is the group that this process opened first and has not closed, else Group() of all launched processes. `deadline`:
    seconds for which an awaited rank may make no progress in this call; 0: the group's. A rank that does not come is no
    exception: soon after the deadline the watchdog names it and ends this process with exit code 4 (5: it was killed).
    `where`: the line that reports show ("serve.py:41"); the caller's, if it is not given. Raises FrameMismatch if ranks
    come with other names, ops or calls (with the lines of all ranks), ConstantMismatch, BadInput (more than eight words,
    a sum that may not fit), and a rank's local error; on all ranks. Raises TypeError and OverflowError on this rank
    alone, for words that are no whole numbers of 64 bits."""
    if not where:
        frame = sys._getframe(1)
        where = _PLACES.get((id(frame.f_code), frame.f_lasti), _NOWHERE)[1] or _caller(frame)
    code, agreed = _native_agree((group or _group())._handle, name or where, where if name else "", deadline, words)
    if code != 0:
        check(code)
    return agreed


def agree_ahead(name: str = "", *, group: Optional[Group] = None, where: str = "", **words: Any) -> "Ahead":
    """Casts the votes of agree() ahead, so that they proceed while the program works (Group.poke()); result() returns
    the group's words. Never waits. Every rank must call this, or none; one such call of a group may be ahead.
    Arguments and errors are those of agree(); result() takes the deadline."""
    where = where or _caller(sys._getframe(1))
    group = group or _group()
    ahead = Ahead(group, name or where, where if name else "", words)
    check(native.agree_words_ahead(group._handle, ahead._name, ahead._where, words))
    return ahead


class Ahead:
    """Words whose votes have been cast."""

    def __init__(self, group: Group, name: str, where: str, words: Dict[str, Any]) -> None:
        self._group, self._name, self._where, self._words = group, name, where, words

    def result(self, deadline: float = 0.0) -> Any:
        """Collective; once. Returns what agree() would. Raises as agree()."""
        code, agreed = _native_agree(self._group._handle, self._name, self._where, deadline, self._words)
        check(code)
        return agreed


def _group() -> Group:
    """Returns the group that was opened first; opens one if there is none, which ends with each process by itself."""
    found = next((group for group in Group.opened if group._handle and group._process == os.getpid()), None)
    if found is None:
        found = Group()
        found._ends_apart = True
    return found


def _caller(frame: types.FrameType) -> str:
    """Returns "serve.py:41"."""
    code = frame.f_code
    place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    _PLACES[id(code), frame.f_lasti] = code, place
    return place
