"""Whether the processes of a job can go on, judged from what each of them posts of itself. Pure."""

from __future__ import annotations

import re
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

MOVES = "moves"
#: Its watched thread sleeps inside XLA, and no other thread of its process runs.
WAITS = "waits"
#: As WAITS, on a device whose work is not seen: XLA may be at work.
MAY_WAIT = "may wait"
#: Its watched thread sleeps elsewhere, and no other thread of its process runs.
STILL = "is still"
#: Its process has said that it runs nothing more.
FINISHED = "has finished"
#: Its process has failed, or has been killed.
GONE, LOST = "has failed", "was lost"
#: Its process is stopped by a signal or a debugger.
STOPPED = "is stopped"
UNSEEN = "is not seen"

#: Seconds for which a rank must be seen to wait before a failure of another rank is reported as the reason.
AFTER_FAILURE = 0.5
#: Seconds for which all ranks must be seen unable to go on before this is reported. (Connections may take time to open,
#: and a machine may stand still.)
PROOF = 3.0
#: The failure of a rank that has ended by a report.
_REPORTED = re.compile(r"(?:[A-Z]\w*: )?(GRAPH_DIVERGENCE|STUCK|GONE|RANK_LOST): ")


class Rank(NamedTuple):
    """What is known of a rank."""

    what: str
    place: str = ""  # "train.py:41"; of GONE: the failure
    since: float = 0.0  # this process's clock, in seconds

    @property
    def is_in_xla(self) -> bool:
        return self.what in (WAITS, MAY_WAIT)

    def text(self) -> str:
        if self.what == GONE:
            return f"has failed: {self.place}" if self.place else self.what
        if self.what == LOST:
            return "has ended without a report (killed, or by os._exit())"
        verb = {WAITS: "waits in XLA", MAY_WAIT: "waits in XLA", STILL: "does not move on", MOVES: "runs"}.get(self.what, self.what)
        return f"{verb} at {self.place}" if self.place and self.what != FINISHED else verb


class Verdict(NamedTuple):
    code: str
    text: str
    #: The table by ranks.
    rows: Tuple[Tuple[str, str], ...]


def verdict(own: int, ranks: Mapping[int, Rank], now: float, deadline: float, ends: bool = False) -> Optional[Verdict]:
    """Says why rank `own`, which waits inside XLA, waits for ever; None: it may go on. `ranks`: all ranks of the
    job. `deadline`: seconds for which a rank may be still while others wait. `ends`: rank `own` waits in the end of
    jax.distributed, as a program that has finished may, however long the others work."""
    mine = ranks[own]
    if not mine.is_in_xla or now - mine.since < AFTER_FAILURE:
        return None
    # What a rank did just before it ended may still be on its way.
    failed = why_failed({rank: state for rank, state in ranks.items() if now - state.since >= AFTER_FAILURE})
    if failed is not None:
        return failed._replace(text=f"{failed.text}, and rank {own} {mine.text()}") if failed.rows else failed
    if ends:
        return None
    if mine.what == WAITS and all(_stands(state, now) for state in ranks.values()):
        return _verdict("STUCK", "no rank can go on: " + "; ".join(
            f"rank {rank} {state.text()}" for rank, state in sorted(ranks.items())), ranks)
    late = [rank for rank, state in ranks.items() if state.what in (STILL, STOPPED) and now - state.since > deadline]
    if late and now - mine.since > deadline:
        return _verdict("STUCK", f"rank {late[0]} {ranks[late[0]].text()} for {deadline:g} s, and rank {own} {mine.text()}",
                        ranks)
    return None


def why_failed(ranks: Mapping[int, Rank]) -> Optional[Verdict]:
    """Returns the verdict by which a rank has ended, else names the first rank that has failed or was killed; None:
    there is none."""
    for rank, state in sorted(ranks.items()):
        reported = _REPORTED.match(state.place) if state.what == GONE else None
        if reported:  # its report is the report of all
            return Verdict(reported.group(1), state.place[reported.end():], ())
    for what, code in ((GONE, "GONE"), (LOST, "RANK_LOST")):
        for rank, state in sorted(ranks.items()):
            if state.what == what:
                return _verdict(code, f"rank {rank} {state.text()}", ranks)
    return None


def _stands(state: Rank, now: float) -> bool:
    """Returns whether a rank has finished or waits, for so long that this counts as proof."""
    return state.what in (FINISHED, WAITS) and now - state.since >= PROOF


def _verdict(code: str, text: str, ranks: Mapping[int, Rank]) -> Verdict:
    return Verdict(code, text, tuple((str(rank), state.text()) for rank, state in sorted(ranks.items())))


class Told:
    """What peers have posted of themselves, and since when this process knows it."""

    def __init__(self) -> None:
        self._known: Dict[int, Tuple[int, Rank]] = {}

    def sees(self, rank: int, what: str, place: str, now: float, number: int = 0) -> Rank:
        """Notes what a rank is seen to do now, and returns it with the time since which it has been seen so. `number`:
        number of the rank's post that says so; a later post is a new state."""
        before, known = self._known.get(rank, (-1, Rank("")))
        if before != number or (known.what, known.place) != (what, place):
            known = Rank(what, place, now)
            self._known[rank] = number, known
        return known
