"""What ranks tell each other of the frames that they compile: a compile under way, inputs, sizes, the graph. What peers
have told is read, never waited for. Pure: without torch."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

#: What a rank has seen of a source in all its compiles of a frame: an int; the sizes of a tensor; None in place of
#: what was not always the same.
Seen = Union[None, int, List[Optional[int]]]
#: Of graphs a rank tells so many bytes in all, compressed; of further ones it tells that they differ, not where.
MOST_TOLD = 1 << 20
_MOST_SHOWN = 200  # characters of a node
_VALUE = re.compile(r": \w+\[[^\]]*\]$")


class Told(NamedTuple):
    """As it is posted."""

    frame: str
    digest: str
    about: str  # JSON
    graph: str  # compressed
    numbers: Tuple[int, ...]


class Tale(NamedTuple):
    """What a rank has told of a version of a frame."""

    frame: str              # "Block.forward (model.py:30)"
    version: int            # of the frame on its rank, from 1
    compiles: bool          # it is under way, and the rest is not known yet
    digest: str = ""        # of the graph, without places
    collectives: str = ""   # digest of its collectives
    inputs: Mapping[str, str] = {}  # "f32[3, 4]" of the call that it was compiled for
    sizes: Mapping[str, Seen] = {}
    graph: str = ""                 # its nodes, packed; what follows a tab is the place. "": they are not told

    def told(self) -> Told:
        about = json.dumps({"inputs": dict(self.inputs), "sizes": dict(self.sizes)}, sort_keys=True)
        return Told(self.frame, f"{self.digest} {self.collectives}" if self.digest else "", about, self.graph,
                    (self.version, int(self.compiles)))


def tale_of(told: Told) -> Optional[Tale]:
    """None: it is no tale."""
    try:
        about = json.loads(told.about)
        digest, _, collectives = told.digest.partition(" ")
        version, compiles = told.numbers
        return Tale(told.frame, version, bool(compiles), digest, collectives, about["inputs"], about["sizes"], told.graph)
    except (ValueError, KeyError, TypeError):
        return None


def _packed(nodes: Iterable[str]) -> str:
    return base64.b85encode(zlib.compress("\n".join(nodes).encode())).decode()


def _unpacked(graph: str) -> List[str]:
    return zlib.decompress(base64.b85decode(graph)).decode().split("\n")


def digest_of(lines: Iterable[str]) -> str:
    """Without their places."""
    return hashlib.sha256("\n".join(line.split("\t", 1)[0] for line in lines).encode()).hexdigest()[:32]


class FrameTales:
    """Of one process."""

    def __init__(self, rank: int, ranks: Sequence[int], tell: Callable[[Told], None], times: Callable[[int], int],
                 read: Callable[[int, int], Optional[Told]]) -> None:
        """`ranks`: those that are watched. `times`(rank): how often one has told something; `read`(rank, number): what, the
        `number`-th time, from 1."""
        self._rank, self._peers = rank, [peer for peer in ranks if peer != rank]
        self._tell, self._times, self._read = tell, times, read
        self._own: Dict[str, Tale] = {}  # the last of each frame
        self._theirs: Dict[int, Dict[str, Tale]] = {peer: {} for peer in self._peers}
        self._known = {peer: 0 for peer in self._peers}
        self._doing: Dict[int, Tale] = {}  # compiles under way
        self._room = MOST_TOLD
        self._said: Set[str] = set()  # frames of which it was said that their graphs differ

    def begins(self, frame: str) -> List[Mapping[str, Seen]]:
        """This rank compiles a version. What peers have seen of its sizes, where this one has a version already."""
        known = self._own.get(frame)
        self._tell(Tale(frame, 1 if known is None else known.version + 1, True).told())
        if known is None:
            return []
        self._look()
        return [theirs[frame].sizes for theirs in self._theirs.values() if frame in theirs and theirs[frame].sizes]

    def has_traced(self, frame: str, nodes: Sequence[str], collectives: Sequence[str], inputs: Mapping[str, str],
                   sizes: Mapping[str, Seen]) -> Tuple[Tale, str]:
        """The tale of the version that `begins()`, and, once for each frame, in which way its graph is another than that of
        peers; "" where it is not."""
        known = self._own.get(frame)
        graph = _packed(nodes)
        fits = len(graph) <= self._room
        self._room -= len(graph) if fits else 0
        tale = Tale(frame, 1 if known is None else known.version + 1, False, digest_of(nodes), digest_of(collectives), inputs,
                    sizes, graph if fits else "")
        self._own[frame] = tale
        self._tell(tale.told())
        if frame in self._said:
            return tale, ""
        self._look()
        others = [peer for peer, theirs in self._theirs.items()
                  if frame in theirs and theirs[frame].version == tale.version and theirs[frame].digest != tale.digest]
        said = self.explained(tale, others)
        if said:
            self._said.add(frame)
        return tale, said

    def has_failed(self, frame: str) -> None:
        """The compile has ended without a version."""
        known = self._own.get(frame)
        self._tell(Tale(frame, 0 if known is None else known.version, False).told())

    def explained(self, tale: Tale, ranks: Sequence[int]) -> str:
        """What is seen to differ between a version of this rank and the last one of `ranks`: the first of them that has
        another graph counts. "": nothing."""
        self._look()
        for peer in ranks:
            theirs = self._theirs.get(peer, {}).get(tale.frame)
            if theirs is None or theirs.digest == tale.digest:
                continue
            parts = [self._nodes(tale, peer, theirs), *self._inputs(tale, peer, theirs)]
            collectives = "" if theirs.collectives == tale.collectives else ", and so do their collectives"
            where = "; ".join(part for part in parts if part)
            return (f"the graphs of {tale.frame} on rank {self._rank} and rank {peer} differ{collectives}"
                    + (f": {where}" if where else ""))
        return ""

    def doing(self, rank: int) -> str:
        """ "Block.forward (model.py:30)", where a peer compiles it; "" where none is known to be compiled."""
        self._look()
        found = self._doing.get(rank)
        return "" if found is None else found.frame

    def is_compiled_elsewhere(self) -> bool:
        """A peer compiles a frame."""
        self._look()
        return bool(self._doing)

    def _nodes(self, tale: Tale, peer: int, theirs: Tale) -> str:
        """The first node that differs; of graphs that differ in sizes alone, the first size."""
        if not tale.graph or not theirs.graph:
            return ""
        mine, others = _unpacked(tale.graph), _unpacked(theirs.graph)
        for shape in (_without_value, _without_place):
            pairs = [(shape(a), shape(b)) for a, b in zip(mine, others)]
            at = next((i for i, pair in enumerate(pairs) if pair[0] != pair[1]), len(pairs))
            if at < max(len(mine), len(others)):
                return f"node {at + 1}: rank {self._rank}: {_shown(mine, at)}; rank {peer}: {_shown(others, at)}"
        return ""

    def _inputs(self, tale: Tale, peer: int, theirs: Tale) -> List[str]:
        return [f"{name} is {value} on rank {self._rank} and {theirs.inputs[name]} on rank {peer}"
                for name, value in tale.inputs.items() if theirs.inputs.get(name, value) != value]

    def _look(self) -> None:
        """Reads what peers have told since it was last called."""
        for peer in self._peers:
            times = self._times(peer)
            for number in range(self._known[peer] + 1, times + 1):
                told = self._read(peer, number)
                tale = None if told is None else tale_of(told)
                if tale is None:
                    continue
                self._doing.pop(peer, None)
                if tale.compiles:
                    self._doing[peer] = tale
                elif tale.digest:
                    self._theirs[peer][tale.frame] = tale
            self._known[peer] = times


def _without_place(node: str) -> str:
    return node.split("\t", 1)[0]


def _without_value(node: str) -> str:
    return _VALUE.sub("", _without_place(node))


def _shown(nodes: Sequence[str], at: int) -> str:
    if at >= len(nodes):
        return "no more nodes"
    text, _, place = nodes[at].partition("\t")
    text = text.strip()
    short = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
    return f"{short} {place}".strip()
