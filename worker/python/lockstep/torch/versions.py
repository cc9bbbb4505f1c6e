"""The versions of a function that ranks call together (compile.py), and what they have agreed on for its calls. Without
torch."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Union

from ..agreement import Agreed
from ..decision import Decision

#: In the error of all ranks where a trace needed what it could not have.
NEEDS = "cannot be traced for sizes that may be 0 or 1"


class NeedsValue(Exception):
    """A trace needed the value of a size that may be 0 or 1."""


class Version(NamedTuple):
    run: Callable[..., Any]
    found: Callable[..., Any]   # the same, where it is not to be compiled
    contiguous: FrozenSet[str]  # tensors of which it runs on contiguous copies
    issued: List[str]           # its collectives, without sizes

    def issues_as_known(self, issued: List[str]) -> bool:
        """What it has issued is what it did in the first run that the ranks have compared; these need no vote."""
        operations = [line.split("[", 1)[0] for line in issued]
        if self.issued[:len(operations)] == operations:
            return True
        if not self.issued:
            self.issued.extend(operations)
        return False


class Versions:
    """`last`: the last call's Agreed; `fields`: the joined values of its version, or of the one that is traced, always the same
    dict."""

    def __init__(self, joins_fields: bool) -> None:
        """`joins_fields`: each call joins some, so that none is like the last one before ranks have met."""
        self._joins_fields = joins_fields
        self._made: Dict[int, Version] = {}
        self._needs: Dict[FrozenSet[str], str] = {}  # sizes without which no trace is possible, and why
        self._like_last: Optional[Version] = None
        self.last: Optional[Agreed] = None
        self.fields: Dict[str, Any] = {}

    def _join(self, decision: Decision) -> None:
        self.fields.clear()
        self.fields.update(decision.fields)

    @property
    def like_last(self) -> Optional[Version]:
        """What a call runs that is like the last one; None: ranks have to agree on that first."""
        return self._like_last

    def settle(self, outcome: Union[Agreed, BaseException]) -> None:
        """What the ranks have agreed on for a call."""
        if isinstance(outcome, BaseException):
            raise outcome
        self.last = outcome
        if outcome.decision is not None:
            self._join(outcome.decision)
        version = self.of_last
        self._like_last = None if version is None or version.contiguous or self._joins_fields else version

    def hit(self) -> None:
        """The ranks have voted that a call is like the last one."""
        assert self.last is not None
        if self.last.is_new:
            self.last = self.last._replace(is_new=False)

    @property
    def of_last(self) -> Optional[Version]:
        """What the last call runs; None: the function as it is written."""
        return None if self.last is None or self.last.entry is None else self._made.get(self.last.entry)

    @property
    def decision(self) -> Optional[Decision]:
        """Of the last call; None: it has no version."""
        return None if self.last is None or self.last.entry is None else self.last.decision

    def keep(self, entry: int, version: Version) -> None:
        self._made[entry] = version

    def make(self, entry: int, decision: Decision, small: FrozenSet[str], trace: Callable[[], str],
             needs_a_value: Callable[[Exception], Optional[str]]) -> str:
        """What `trace` returns of version `entry`, which takes the place of what is there. NeedsValue: `needs_a_value`(error) says
        why it needs a value of the sizes `small`, which may be 0 or 1; it is not traced again for these."""
        self._made.pop(entry, None)
        self._join(decision)
        if small in self._needs:
            raise NeedsValue(self._needs[small])
        try:
            return trace()
        except Exception as error:
            why = needs_a_value(error) if small else None
            if why is None:
                raise
            self._needs[small] = why
            raise NeedsValue(why) from error
