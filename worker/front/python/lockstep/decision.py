"""What the group has decided for one version of a function."""

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
    unbacked: bool = False  # marked unbacked: no version may rely on its value


class Decision:
    """The sizes, symbols and fields for which a version of a function is made; the same on all ranks."""

    def __init__(self, handle: int, built: Optional[int] = None) -> None:
        self._built = built  # address of the lockstep_built, while the version is built
        self.text: str = lib.decision_text(handle)
        whole = json.loads(lib.decision_json(handle))
        #: By source: a list of sizes, an int or a bool. In place of a size or an int, a str is the name of a symbol.
        self.inputs: Dict[str, Any] = whole["decisions"]
        self.symbols: Dict[str, Symbol] = {
            name: Symbol(name, s["source"], s["min"], s["hint"], _is_unbacked(handle, i))
            for i, (name, s) in enumerate(whole["symbols"].items())}
        #: The joined values of Observation.observe() by name; a union is a tuple.
        self.fields: Dict[str, Any] = joined_fields(handle)

    def size(self, source: str, dim: int) -> Any:
        """Returns the size of dim `dim`: a number, or a Symbol."""
        found = self.inputs[source][dim]
        return self.symbols[found] if isinstance(found, str) else found

    def guard(self, condition: str, where: Optional[str] = None) -> None:
        """Adds, while the version is built, a condition on which it relies: "x.size(0) % 8 == 0" or
        "x.size(0) * 2 <= Max(y.size(1), n)" (+ - * // % Mod Min Max; one of == != < <= > >=). If the condition is
        false on some rank, that is BranchDivergence on all. From then on the version fits only inputs for which the
        condition is true. All ranks must give the same guards. `where`: "kernel.py:41" (default: the caller's line).
        Raises BadInput for a text that cannot be read; the build then fails even if the exception is caught."""
        check(lib.build_guard(self._built, condition, _place(where)))

    def uniform(self, size: str, what: str, where: Optional[str] = None) -> None:
        """Declares, while the version is built, that `what`, such as "all_reduce", needs `size` equal on all ranks:
        "x.size(0) * 2" (with the operators of guard()). If the size differs, now or in a later call of the version,
        that is ConstraintViolation on all ranks, with the values. All ranks must declare the same sizes. `where` and
        BadInput are as for guard()."""
        check(lib.build_uniform(self._built, size, what, _place(where)))

    def kept(self, of: str) -> Optional[bytes]:
        """Returns, while the version is built, the bytes that share() has kept under `of` on this rank, in files that
        only this user can write and whose SHA-256 is checked; None: no such bytes. Not collective."""
        return self._bytes(lib.build_kept, of)

    def share(self, of: str, mine: Optional[bytes] = None) -> Optional[bytes]:
        """Collective, while the version is built: returns the bytes `mine` of rank 0 on all ranks with the same `of`,
        and these ranks keep them. `of` is a text of all that the bytes depend on. Returns None on ranks with another
        `of`, and on all ranks if rank 0 has no bytes. More than 64 MiB are not sent: ranks that have not kept them get
        None. Call it after the build on rank 0, and before the build on the other ranks, which wait for rank 0. Ranks
        that have kept bytes with the same SHA-256 receive no transfer. Raises Environment if the received bytes are
        wrong."""
        return self._bytes(lib.build_share, of, mine)

    def _bytes(self, function: Callable[..., Tuple[int, Optional[bytes]]], of: str, *more: Any) -> Optional[bytes]:
        code, found = function(self._built, lib.fingerprint_of(of.encode()), *more)
        check(code)
        return found

    def __str__(self) -> str:
        return self.text


def _place(where: Optional[str]) -> str:
    """Returns `where`, by default the line of the caller's caller."""
    if where is not None:
        return where
    caller = sys._getframe(2)
    return f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"


def _is_unbacked(decision: int, symbol: int) -> bool:
    code, _, _, unbacked = lib.decision_symbol(decision, symbol)
    check(code)
    return bool(unbacked)
