"""What the ranks of a group vote on, and compare, before a frame. Without torch."""

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
    """Of the ranks of `group`, which reports call `title`. Collective, each call but trouble(), finding() and summary()."""

    def __init__(self, group: Group, title: str) -> None:
        self.group = group
        self._agreement = Agreement(group, f"torch.compile of {title}")
        self._handle = self._agreement._handle

    def enter(self, name: str, new: bool, issued: List[str]) -> int:
        """Before the frame `name`: this rank needs a `new` version of it, and has issued these collectives since it was
        called last. How often what differs has been found; 0: nothing does. Raises FrameMismatch where a rank enters
        another frame."""
        code, times = lib.audit(self._handle, name, None, _run_of(new, issued) if issued else _RUNS[new])
        check(code)
        return int(times)

    def compare(self, name: str, inputs: Optional[Observation], graph: GraphText, trouble: Optional[str]) -> int:
        """What `name` was traced to. `trouble`: it was not, and why. As enter()."""
        times, _ = self._agreement.audit(name, inputs, compared(graph.nodes), graph.collectives, is_new=True,
                                         program_text="\n".join([f"{len(graph.nodes)} nodes", *graph.nodes]), trouble=trouble)
        return times

    def all(self, mine: bool) -> bool:
        return self.group.all(mine)

    def trouble(self, text: str, code: str = "RUNTIME_ASSERT") -> None:
        """This rank has failed: the next call raises on all."""
        self.group.trouble(text, code)

    def finding(self) -> Finding:
        """Of the last call that has found something."""
        return finding_of(lib.finding(self._handle))

    def summary(self) -> str:
        return self._agreement.summary()


def _run_of(new: bool, issued: List[str]) -> Tuple[Any, ...]:
    """lockstep_run"""
    words = "needs a new version" if new else "has a version"
    return (new, lib.fingerprint_of(words.encode()), _ISSUED, lib.fingerprint_of(compared(issued).encode()), words,
            "\n".join(issued), None)


_RUNS = {new: _run_of(new, []) for new in (False, True)}
