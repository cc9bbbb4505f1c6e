"""What the ranks have posted of the modules that they compile, and of their settings. Pure: over the posts of lines.py."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Tuple

from ..lines import NEEDS_NOBODY, Operation, Post
from .module_text import Module, difference, unpacked

#: Most bytes of packed modules that a rank posts. Beyond it, only digests are known.
MOST_POSTED = 4 << 20


class Board(Protocol):
    """Posts of all ranks: those of Lines."""

    def tell(self, key: Any, post: Operation) -> None: ...

    def times_told(self, key: Any, rank: int) -> int: ...

    def told(self, key: Any, rank: int, number: int) -> Optional[Post]: ...


class Posted(NamedTuple):
    """A module that a rank has posted."""

    name: str
    digest: str
    ordinal: int  # number of the rank's compiles of modules with this name, from 1
    number: int   # of the post


class Modules:
    """The modules that one process posts, and those that it reads of all ranks. One thread at a time."""

    def __init__(self, rank: int, board: Board, key_of: Callable[[bytes], Any]) -> None:
        """`key_of`: lib.fingerprint_of."""
        self._rank, self._board = rank, board
        self._modules, self._settings = key_of(b"jax modules"), key_of(b"jax settings")
        self._room = MOST_POSTED
        self._ordinals: Dict[str, int] = {}
        self._own_settings: Mapping[str, str] = {}
        self._known: Dict[int, List[Posted]] = {}  # by rank
        self._read: Dict[int, int] = {}            # number of posts read, by rank

    def post(self, module: Module, settings: Mapping[str, str]) -> int:
        """Posts a module, and the settings if they have changed. Returns the module's ordinal."""
        if settings != self._own_settings:
            self._own_settings = settings
            self._board.tell(self._settings, Operation("settings", place=json.dumps(settings), needs=NEEDS_NOBODY))
        ordinal = self._ordinals[module.name] = self._ordinals.get(module.name, 0) + 1
        packed = module.packed()
        if len(packed) > self._room:
            packed = ""
        self._room -= len(packed)
        self._board.tell(self._modules, Operation(module.name, module.digest, "", packed, needs=NEEDS_NOBODY, to=(ordinal,)))
        return ordinal

    def of(self, rank: int) -> List[Posted]:
        """Returns what a rank has posted, in its order."""
        known = self._known.setdefault(rank, [])
        times = self._board.times_told(self._modules, rank)
        for number in range(self._read.get(rank, 0) + 1, times + 1):
            post = self._board.told(self._modules, rank, number)
            if post is not None and len(post.numbers) == 1:
                known.append(Posted(post.kind, post.dtype, post.numbers[0], number))
        self._read[rank] = times
        return known

    def differs(self, mine: Module, ordinal: int, ranks: Tuple[int, ...]) -> str:
        """Returns how a peer's module of the same name and ordinal differs from this rank's; "": none differs so far."""
        for peer in ranks:
            posted = next((each for each in self.of(peer) if (each.name, each.ordinal) == (mine.name, ordinal)), None)
            if peer != self._rank and posted is not None and posted.digest != mine.digest:
                why = self.why((self._rank, mine.digest), (peer, posted.digest))
                return f"compile {ordinal} of {mine.name} differs between rank {self._rank} and rank {peer}" + (why and f": {why}")
        return ""

    def never_compiled(self, mine: Module, ranks: Tuple[int, ...]) -> str:
        """Names a rank that has compiled other modules and not this one, and how its last module of that name differs;
        "": there is none."""
        for peer in ranks:
            posted = [] if peer == self._rank else self.of(peer)
            if posted and all(each.digest != mine.digest for each in posted):
                other = next((each for each in reversed(posted) if each.name == mine.name), None)
                why = "" if other is None else self.why((self._rank, mine.digest), (peer, other.digest))
                return (f"rank {peer} has not compiled it, so its collectives were those of another computation"
                        + (why and f" ({why})"))
        return ""

    def why(self, one: Tuple[int, str], other: Tuple[int, str]) -> str:
        """Returns how two modules differ, each given by its rank and the begin of its digest; "": it is not known."""
        a, b = self._module(*one), self._module(*other)
        parts = self._settings_differ(one[0], other[0])
        if a is not None and b is not None:
            parts.append(difference(a, b, one[0], other[0]))
        return "; ".join(part for part in parts if part)

    def _module(self, rank: int, digest: str) -> Optional[Module]:
        posted = next((each for each in reversed(self.of(rank)) if each.digest.startswith(digest)), None)
        post = None if posted is None else self._board.told(self._modules, rank, posted.number)
        return None if post is None else unpacked(post.place)

    def _settings_differ(self, rank_a: int, rank_b: int) -> List[str]:
        a, b = (self._settings_of(rank) for rank in (rank_a, rank_b))
        if a is None or b is None:
            return []
        return [f"{name} is {a.get(name, 'not set')} on rank {rank_a} and {b.get(name, 'not set')} on rank {rank_b}"
                for name in sorted({*a, *b}) if a.get(name) != b.get(name) and not _may_differ(name)]

    def _settings_of(self, rank: int) -> Optional[Dict[str, str]]:
        post = self._board.told(self._settings, rank, self._board.times_told(self._settings, rank))
        try:
            settings: Optional[Dict[str, str]] = None if post is None else json.loads(post.place)
        except ValueError:
            return None
        return settings


def _may_differ(name: str) -> bool:
    """Returns whether a setting may differ between processes without a difference in what they compute."""
    return any(word in name for word in ("_dir", "path", "_log", "dump", "visible_devices", "file", "profil", "_port"))
