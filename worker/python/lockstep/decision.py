"""What the group has decided of one version of a function."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, NamedTuple, Optional

from ._library import lib
from .errors import check
from .field import joined_fields


class Symbol(NamedTuple):
    """A size or int that differs between calls or ranks."""

    name: str    # "s0"
    source: str  # "batch.tokens.size(0)"
    min: Optional[int]
    hint: int    # an example, the same on all ranks


class Decision:
    """What a version of a function is made for; the same on all ranks."""

    def __init__(self, handle: int, built: Optional[int] = None) -> None:
        self._built = built  # while the version is built
        self.text: str = lib.decision_text(handle).decode(errors="replace")
        whole = json.loads(lib.decision_json(handle))
        #: Per source: a list of sizes, an int or a bool; a symbol is its name.
        self.inputs: Dict[str, Any] = whole["decisions"]
        self.symbols: Dict[str, Symbol] = {
            name: Symbol(name, s["source"], s["min"], s["hint"])
            for name, s in whole["symbols"].items()}
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
        if where is None:
            caller = sys._getframe(1)
            where = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
        check(lib.build_guard(self._built, condition.encode(), where.encode()))

    def __str__(self) -> str:
        return self.text
