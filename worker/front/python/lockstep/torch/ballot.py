"""The votes and comparisons that a group's ranks make before frames. Without torch."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from .._library import lib
from ..agreement import Agreement
from ..errors import Finding, check, finding_of
from ..group import Group
from ..observation import Observation
from .frames import GraphText, compared

_ISSUED = 3  # LOCKSTEP_COLLECTIVES_ISSUED


class Ballot:
    """The votes of the ranks of `group`. `title`: the group's name in reports. Every method except trouble(), finding()
    and summary() is collective."""

    def __init__(self, group: Group, title: str) -> None:
        self.group = group
        self._agreement = Agreement(group, f"torch.compile of {title}")
        self._handle = self._agreement._handle

    def enter(self, name: str, new: bool, issued: List[str]) -> int:
        """Votes before the frame `name`. `new`: whether this rank needs a new version of the frame. `issued`: the
        collectives that this rank has issued since the last enter(). Returns how often this difference between the
        ranks has been found so far; 0: no difference. Raises FrameMismatch if a rank enters another frame."""
        code, times = lib.audit(self._handle, name, None, _run_of(new, issued) if issued else _RUNS[new])
        check(code)
        return int(times)

    def compare(self, name: str, inputs: Optional[Observation], graph: GraphText, trouble: Optional[str]) -> int:
        """Compares the graphs of the frame `name`, and returns and raises like enter(). `trouble`: why the frame was
        not traced, or None."""
        times, _ = self._agreement.audit(name, inputs, compared(graph.nodes), graph.collectives, is_new=True,
                                         program_text="\n".join([f"{len(graph.nodes)} nodes", *graph.nodes]), trouble=trouble)
        return times

    def all(self, mine: bool) -> bool:
        return self.group.all(mine)

    def trouble(self, text: str, code: str = "RUNTIME_ASSERT") -> None:
        """Reports that this rank has failed: the next call raises on all ranks."""
        self.group.trouble(text, code)

    def finding(self) -> Finding:
        """Returns the finding of the last enter() or compare(), which must have found a difference."""
        return finding_of(lib.finding(self._handle))

    def summary(self) -> str:
        return self._agreement.summary()


def _run_of(new: bool, issued: List[str]) -> Tuple[Any, ...]:
    """Returns a lockstep_run."""
    words = "needs a new version" if new else "has a version"
    return (new, lib.fingerprint_of(words.encode()), _ISSUED, lib.fingerprint_of(compared(issued).encode()), words,
            "\n".join(issued), None)


_RUNS = {new: _run_of(new, []) for new in (False, True)}
