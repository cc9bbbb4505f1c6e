"""Words of reports about ranks. Pure."""

from __future__ import annotations

import re
from typing import List

_NAMED = re.compile(r"(?:\[|; )ranks? ([0-9,-]+): |waits for ranks? ([0-9,-]+)|rank ([0-9]+) does not move on")


def phrase(ranks: List[int], one: str = "rank", several: str = "ranks") -> str:
    """Returns "ranks 0-3"."""
    if len(ranks) == 1:
        return f"{one} {ranks[0]}"
    if ranks == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{several} {ranks[0]}-{ranks[-1]}"
    return f"{several} " + ",".join(map(str, ranks))


def numbers_of(phrases: str) -> List[int]:
    """Returns the ranks of "0-2,5"."""
    found: List[int] = []
    for part in filter(None, phrases.split(",")):
        ends = part.split("-")
        found += range(int(ends[0]), int(ends[-1]) + 1)
    return found


def ranks_named(text: str) -> List[int]:
    """Returns the ranks that are named in the report of a refusal or of a wait, as in "[rank 0: …; ranks 2-3: …]" and
    "waits for rank 1"."""
    found: List[int] = []
    for phrases in _NAMED.findall(text):
        found += [rank for rank in numbers_of(",".join(phrases)) if rank not in found]
    return found
