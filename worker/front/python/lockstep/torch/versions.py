"""The versions of a function that ranks call together (compile.py), and what the ranks agreed on for the function's
last call. Without torch."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Union

from ..agreement import Agreed
from ..decision import Decision

#: Part of the error that all ranks get if a trace needs the value of a size that has no value during the trace.
NEEDS = "cannot be traced for sizes that may be 0 or 1"


class NeedsValue(Exception):
    """A trace needed the value of a size that may be 0 or 1."""


class Version(NamedTuple):
    run: Callable[..., Any]
    found: Callable[..., Any]   # runs the same compiled code at lower cost, if its guards hold
    contiguous: FrozenSet[str]  # names of tensors that are passed as contiguous copies
    issued: List[str]           # collectives of the first compared run, without sizes

    def issues_as_known(self, issued: List[str]) -> bool:
        """Returns whether the collectives that a run has `issued` are a prefix of `self.issued`; if so, they need no
        vote. If `self.issued` is empty, it becomes `issued`."""
        operations = [line.split("[", 1)[0] for line in issued]
        if self.issued[:len(operations)] == operations:
            return True
        if not self.issued:
            self.issued.extend(operations)
        return False


class Versions:
    """The versions of one function. `last`: the last call's Agreed. `fields`: the joined values of the last call's
    version, or of the version being traced; always the same dict object."""

    def __init__(self, joins_fields: bool) -> None:
        """`joins_fields`: calls have fields, so only the agreement shows whether a call runs the version of the last
        call."""
        self._joins_fields = joins_fields
        self._made: Dict[int, Version] = {}
        self._needs: Dict[FrozenSet[str], str] = {}  # why a trace needed values, by its set of small sizes
        self._like_last: Optional[Version] = None
        self.last: Optional[Agreed] = None
        self.fields: Dict[str, Any] = {}

    def _join(self, decision: Decision) -> None:
        self.fields.clear()
        self.fields.update(decision.fields)

    @property
    def like_last(self) -> Optional[Version]:
        """The version of the last call, if the next call may try it before the ranks agree; else None."""
        return self._like_last

    def settle(self, outcome: Union[Agreed, BaseException]) -> None:
        """Records what the ranks have agreed on for a call; raises `outcome` if it is an error."""
        if isinstance(outcome, BaseException):
            raise outcome
        self.last = outcome
        if outcome.decision is not None:
            self._join(outcome.decision)
        version = self.of_last
        self._like_last = None if version is None or version.contiguous or self._joins_fields else version

    def hit(self) -> None:
        """Records that the ranks have voted to run the last call's version again."""
        assert self.last is not None
        if self.last.is_new:
            self.last = self.last._replace(is_new=False)

    @property
    def of_last(self) -> Optional[Version]:
        """The version of the last call; None: the call runs the function uncompiled."""
        return None if self.last is None or self.last.entry is None else self._made.get(self.last.entry)

    @property
    def decision(self) -> Optional[Decision]:
        """The decision of the last call's version; None: the call has no version."""
        return None if self.last is None or self.last.entry is None else self.last.decision

    def keep(self, entry: int, version: Version) -> None:
        self._made[entry] = version

    def make(self, entry: int, decision: Decision, small: FrozenSet[str], trace: Callable[[], str],
             needs_a_value: Callable[[Exception], Optional[str]]) -> str:
        """Returns the result of `trace` for version `entry`, which replaces an earlier version of that number. `small`:
        the sizes that may be 0 or 1. If the trace fails because it needs the values of such sizes, raises NeedsValue
        with the reason, which `needs_a_value`(error) returns; later calls with the same `small` raise it without a
        trace."""
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
