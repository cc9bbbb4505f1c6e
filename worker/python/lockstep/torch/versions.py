"""The versions of a function that ranks call together (compile.py), and the agreements on its calls. Without torch."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Union

from ..agreement import Agreed
from ..decision import Decision

#: Part of the error of all ranks if a trace needed the value of a size without one.
NEEDS = "cannot be traced for sizes that may be 0 or 1"


class NeedsValue(Exception):
    """A trace needed the value of a size that may be 0 or 1."""


class Version(NamedTuple):
    run: Callable[..., Any]
    found: Callable[..., Any]   # the version for calls that must not compile
    contiguous: FrozenSet[str]  # tensors that are passed as contiguous copies
    issued: List[str]           # its collectives, without sizes

    def issues_as_known(self, issued: List[str]) -> bool:
        """Returns whether the version has issued the collectives of the first run that the ranks have compared: then
        they need no vote."""
        operations = [line.split("[", 1)[0] for line in issued]
        if self.issued[:len(operations)] == operations:
            return True
        if not self.issued:
            self.issued.extend(operations)
        return False


class Versions:
    """`last`: the last call's Agreed; `fields`: the joined values of its version, or of the one being traced, always
    in the same dict."""

    def __init__(self, joins_fields: bool) -> None:
        """`joins_fields`: each call joins fields, so no call is known to be like the last one before the vote."""
        self._joins_fields = joins_fields
        self._made: Dict[int, Version] = {}
        self._needs: Dict[FrozenSet[str], str] = {}  # sizes whose values every trace needs, and why
        self._like_last: Optional[Version] = None
        self.last: Optional[Agreed] = None
        self.fields: Dict[str, Any] = {}

    def _join(self, decision: Decision) -> None:
        self.fields.clear()
        self.fields.update(decision.fields)

    @property
    def like_last(self) -> Optional[Version]:
        """Returns the version for a call like the last one; None: ranks have to agree first."""
        return self._like_last

    def settle(self, outcome: Union[Agreed, BaseException]) -> None:
        """Records what the ranks have agreed on for a call. Raises it if it is an error."""
        if isinstance(outcome, BaseException):
            raise outcome
        self.last = outcome
        if outcome.decision is not None:
            self._join(outcome.decision)
        version = self.of_last
        self._like_last = None if version is None or version.contiguous or self._joins_fields else version

    def hit(self) -> None:
        """Records that the ranks have voted that a call is like the last one."""
        assert self.last is not None
        if self.last.is_new:
            self.last = self.last._replace(is_new=False)

    @property
    def of_last(self) -> Optional[Version]:
        """Returns the version of the last call; None: it runs the function uncompiled."""
        return None if self.last is None or self.last.entry is None else self._made.get(self.last.entry)

    @property
    def decision(self) -> Optional[Decision]:
        """Returns the decision of the last call; None: it has no version."""
        return None if self.last is None or self.last.entry is None else self.last.decision

    def keep(self, entry: int, version: Version) -> None:
        self._made[entry] = version

    def make(self, entry: int, decision: Decision, small: FrozenSet[str], trace: Callable[[], str],
             needs_a_value: Callable[[Exception], Optional[str]]) -> str:
        """Returns the result of `trace` for version `entry`, which replaces a version of that number. Raises
        NeedsValue if `needs_a_value`(error) gives a reason why the trace needs values of the sizes `small`, which may
        be 0 or 1; it is then not traced again for these."""
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
