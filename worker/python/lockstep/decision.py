"""What the group has decided of one version of a function."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from ._library import lib
from .errors import check
from .field import joined_fields


class Symbol(NamedTuple):
    """A size or int that differs between calls or ranks."""

    name: str    # "s0"
    source: str  # "batch.tokens.size(0)"
    min: Optional[int]
    hint: int    # an example, the same on all ranks
    unbacked: bool = False  # it is marked so: no version may rely on its value


class Decision:
    """What a version of a function is made for; the same on all ranks."""

    def __init__(self, handle: int, built: Optional[int] = None) -> None:
        self._built = built  # while the version is built
        self.text: str = lib.decision_text(handle)
        whole = json.loads(lib.decision_json(handle))
        #: Per source: a list of sizes, an int or a bool; a symbol is its name.
        self.inputs: Dict[str, Any] = whole["decisions"]
        self.symbols: Dict[str, Symbol] = {
            name: Symbol(name, s["source"], s["min"], s["hint"], _is_unbacked(handle, i))
            for i, (name, s) in enumerate(whole["symbols"].items())}
        #: Of Observation.observe(): the joined value by name; of a union a tuple.
        self.fields: Dict[str, Any] = joined_fields(handle)

    def size(self, source: str, dim: int) -> Any:
        """A number, or the Symbol."""
        found = self.inputs[source][dim]
        return self.symbols[found] if isinstance(found, str) else found

    def guard(self, condition: str, where: Optional[str] = None) -> None:
        """While the version is built: it relies on this, such as "x.size(0) % 8 == 0" or
        "x.size(0) * 2 <= Max(y.size(1), n)" (+ - * // % Mod Min Max; one of == != < <= > >=). False on
        some rank is BranchDivergence on all; from then on the version fits only inputs for which it is
        true. All ranks give the same ones. `where`: "kernel.py:41" (default: the caller's line).
        Raises BadInput for a text that cannot be read; the build has then failed in any case."""
        check(lib.build_guard(self._built, condition, _place(where)))

    def uniform(self, size: str, what: str, where: Optional[str] = None) -> None:
        """While the version is built: `what`, such as "all_reduce", needs this to be the same on all ranks: "x.size(0) * 2"
        (operators as of guard()). Where it is not, now or in a later call of the version, that is ConstraintViolation on
        all ranks, with the values. All ranks give the same ones. `where` and BadInput as for guard()."""
        check(lib.build_uniform(self._built, size, what, _place(where)))

    def kept(self, of: str) -> Optional[bytes]:
        """While the version is built: what this rank has kept under `of` by share(), in files that only this
        user can write and whose SHA-256 is checked; None: nothing. Not collective."""
        return self._bytes(lib.build_kept, of)

    def share(self, of: str, mine: Optional[bytes] = None) -> Optional[bytes]:
        """While the version is built, collective: the bytes `mine` of rank 0, for all ranks with the same `of`,
        which covers all that they depend on; these ranks keep them. None on other ranks, on all where rank 0
        has none, and on those that lack them where there are more than 64 MiB. Called before the build on
        ranks that wait for rank 0's, and after it there. Ranks that have kept the same bytes, by their SHA-256,
        receive none. Raises Environment where other bytes have come."""
        return self._bytes(lib.build_share, of, mine)

    def _bytes(self, function: Callable[..., Tuple[int, Optional[bytes]]], of: str, *more: Any) -> Optional[bytes]:
        code, found = function(self._built, lib.fingerprint_of(of.encode()), *more)
        check(code)
        return found

    def __str__(self) -> str:
        return self.text


def _place(where: Optional[str]) -> str:
    """Of the caller's caller, where none is given."""
    if where is not None:
        return where
    caller = sys._getframe(2)
    return f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"


def _is_unbacked(decision: int, symbol: int) -> bool:
    code, _, _, unbacked = lib.decision_symbol(decision, symbol)
    check(code)
    return bool(unbacked)
