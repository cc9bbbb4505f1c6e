"""Tales: reports of ranks to each other about the frames that they compile (a running compile, inputs, sizes, graphs).
A rank reads the tales that peers have posted, and never waits for one. Pure: without torch."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

#: What a rank has seen of a source in all its compiles of a frame: an int, or the sizes of a tensor. None in place of a
#: number that varied.
Seen = Union[None, int, List[Optional[int]]]
#: Most bytes of inputs, sizes and graphs that a rank reports in all its tales. Beyond it, a tale has only digests of
#: its graphs, which show that graphs differ, but not where.
MOST_TOLD = 1 << 20
_Frame = Tuple[str, str]  # name and closure of a frame
_MOST_SHOWN = 200  # characters of a node
#: The frame's name in tales about a backward pass that is built when the program first needs it.
BACKWARD = "a backward pass"
_VALUE = re.compile(r": \w+\[[^\]]*\]$")


#: The nodes and the collectives of a graph, one line for each.
Lines = Tuple[Sequence[str], Sequence[str]]


class Told(NamedTuple):
    """A tale in the form in which it is posted."""

    frame: str
    digest: str
    about: str  # JSON
    graph: str  # compressed
    numbers: Tuple[int, ...]


class Graph(NamedTuple):
    """The graph of a forward or a backward pass."""

    digest: str       # of the nodes, without places
    collectives: str  # digest of the collectives
    nodes: str        # the nodes' lines, packed; text after a tab is the node's place. "": not reported


class Tale(NamedTuple):
    """What a rank has reported about a version of a frame."""

    frame: str              # "Block.forward (model.py:30)"
    version: int            # number of the version on its rank, from 1; 0: the compile has ended without a version
    compiles: bool          # True: the compile is running, so graphs, inputs and sizes are not known yet
    forward: Optional[Graph] = None
    backward: Optional[Graph] = None  # None: the rank does not know its backward graph
    closure: str = ""       # distinguishes frames with the same name
    inputs: Mapping[str, str] = {}  # the inputs for which the version was compiled: "f32[3, 4]" by name
    sizes: Mapping[str, Seen] = {}

    @property
    def key(self) -> "_Frame":
        return self.frame, self.closure

    def told(self) -> Told:
        graphs = [self.forward, self.backward]
        about = json.dumps({"inputs": dict(self.inputs), "sizes": dict(self.sizes), "closure": self.closure}, sort_keys=True)
        return Told(self.frame, " ".join(f"{graph.digest} {graph.collectives}" for graph in graphs if graph), about,
                    " ".join(graph.nodes or "-" for graph in graphs if graph), (self.version, int(self.compiles)))

    def differs(self, other: "Tale") -> bool:
        """Returns whether the forward or the backward graphs differ, as far as both tales have them."""
        return any(mine and theirs and mine.digest != theirs.digest for mine, theirs in self._pairs(other))

    def collectives_differ(self, other: "Tale") -> bool:
        return any(mine and theirs and mine.collectives != theirs.collectives for mine, theirs in self._pairs(other))

    def _pairs(self, other: "Tale") -> List[Tuple[Optional[Graph], Optional[Graph]]]:
        return [(self.forward, other.forward), (self.backward, other.backward)]


def tale_of(told: Told) -> Optional[Tale]:
    """Returns the posted tale; None: the post is not a tale."""
    try:
        about = json.loads(told.about)
        digests, nodes = told.digest.split(), told.graph.split()
        forward, backward = (Graph(digests[i], digests[i + 1], "" if nodes[i // 2] == "-" else nodes[i // 2])
                             if i < len(digests) else None for i in (0, 2))
        version, compiles = told.numbers
        return Tale(told.frame, version, bool(compiles), forward, backward, about["closure"], about["inputs"], about["sizes"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _graph(lines: Lines) -> Graph:
    nodes, collectives = lines
    packed = base64.b85encode(zlib.compress("\n".join(nodes).encode(errors="replace"))).decode() if nodes else ""
    return Graph(digest_of(nodes), digest_of(collectives), packed)


def _bare(graph: Optional[Graph]) -> Optional[Graph]:
    """Returns the graph without its nodes."""
    return None if graph is None else graph._replace(nodes="")


def _unpacked(graph: Graph) -> List[str]:
    return zlib.decompress(base64.b85decode(graph.nodes)).decode().split("\n")


def digest_of(lines: Iterable[str]) -> str:
    """Returns a digest of the lines. The places in them do not count."""
    return hashlib.sha256("\n".join(line.split("\t", 1)[0] for line in lines).encode(errors="replace")).hexdigest()[:32]


class FrameTales:
    """The tales that one process posts and reads."""

    def __init__(self, rank: int, ranks: Sequence[int], tell: Callable[[Told], None], times: Callable[[int], int],
                 read: Callable[[int, int], Optional[Told]]) -> None:
        """`ranks`: the watched ranks. `tell`: posts a tale. `times`(rank): returns the number of a rank's posts.
        `read`(rank, number): returns a rank's post of this number, from 1."""
        self._rank, self._peers = rank, [peer for peer in ranks if peer != rank]
        self._tell, self._times, self._read = tell, times, read
        self._own: Dict[_Frame, Tale] = {}  # this rank's last tale of each frame
        self._theirs: Dict[int, Dict[_Frame, Tale]] = {peer: {} for peer in self._peers}  # each peer's last tales
        self._known = {peer: 0 for peer in self._peers}  # number of posts read
        self._doing: Dict[int, List[str]] = {peer: [] for peer in self._peers}  # running compiles
        self._room = MOST_TOLD  # bytes left for inputs, sizes and graphs
        self._said: Set[_Frame] = set()  # frames whose graphs have been reported to differ

    def begins(self, frame: str, closure: str = "", first: bool = False) -> List[Mapping[str, Seen]]:
        """Reports that this rank begins to compile a version of a frame. Returns, for each peer, the sizes that it has
        seen of the frame; nothing if this is the rank's first version and `first` is not set."""
        known = self._own.get((frame, closure))
        self._tell(Tale(frame, 1 if known is None else known.version + 1, True).told())
        if known is None and not first:
            return []
        self._look()
        told = [theirs.get((frame, closure)) for theirs in self._theirs.values()]
        return [tale.sizes for tale in told if tale is not None and tale.sizes]

    def has_traced(self, frame: str, forward: Lines, backward: Optional[Lines], inputs: Mapping[str, str],
                   sizes: Mapping[str, Seen], closure: str = "") -> Tuple[Tale, str]:
        """Reports the version whose compile begins() has reported. Returns the version's tale and, once for each frame,
        how the version's graph differs from a peer's graph of the same version number; "": no difference."""
        known = self._own.get((frame, closure))
        tale = Tale(frame, 1 if known is None else known.version + 1, False, _graph(forward),
                    None if backward is None else _graph(backward), closure, inputs, sizes)
        size = sum(map(len, tale.told()[1:4]))
        if size > self._room:
            tale = tale._replace(inputs={}, sizes={}, forward=_bare(tale.forward), backward=_bare(tale.backward))
        else:
            self._room -= size
        self._own[tale.key] = tale
        self._tell(tale.told())
        if tale.key in self._said:
            return tale, ""
        self._look()
        said = self.explained(tale, [peer for peer, theirs in self._theirs.items()
                                     if tale.key in theirs and theirs[tale.key].version == tale.version])
        if said:
            self._said.add(tale.key)
        return tale, said

    def has_ended(self, frame: str) -> None:
        """Reports that a compile has ended without a version."""
        self._tell(Tale(frame, 0, False).told())

    def explained(self, tale: Tale, ranks: Sequence[int]) -> str:
        """Compares a version of this rank with the last version of the frame on each of `ranks`. Returns how it differs
        from the first of them that has another graph; "": no difference."""
        self._look()
        for peer in ranks:
            theirs = self._theirs.get(peer, {}).get(tale.key)
            if theirs is None or not tale.differs(theirs):
                continue
            parts = [self._nodes(tale, peer, theirs), *self._inputs(tale, peer, theirs)]
            collectives = ", and so do their collectives" if tale.collectives_differ(theirs) else ""
            where = "; ".join(part for part in parts if part)
            return (f"the graphs of {tale.frame} on rank {self._rank} and rank {peer} differ{collectives}"
                    + (f": {where}" if where else ""))
        return ""

    def doing(self, rank: int) -> str:
        """Returns the frame that a peer is compiling, "Block.forward (model.py:30)"; "": no compile is known."""
        self._look()
        return next(iter(self._doing.get(rank, [])), "")

    def is_compiled_elsewhere(self) -> bool:
        """Returns whether a peer is compiling a frame."""
        self._look()
        return any(self._doing.values())

    def _nodes(self, tale: Tale, peer: int, theirs: Tale) -> str:
        """Returns the first node that differs, with its text on both ranks. Dtypes and sizes of nodes count only if the
        graphs do not differ otherwise."""
        lists = [(_unpacked(a), _unpacked(b)) for a, b in tale._pairs(theirs) if a and b and a.nodes and b.nodes]
        for shape in (_without_value, _without_place):
            before = 0
            for mine, others in lists:
                pairs = [(shape(a), shape(b)) for a, b in zip(mine, others)]
                at = next((i for i, pair in enumerate(pairs) if pair[0] != pair[1]), len(pairs))
                if at < max(len(mine), len(others)):
                    return (f"node {before + at + 1}: rank {self._rank}: {_shown(mine, at)}; rank {peer}: {_shown(others, at)}")
                before += len(mine)
        return ""

    def _inputs(self, tale: Tale, peer: int, theirs: Tale) -> List[str]:
        return [f"{name} is {value} on rank {self._rank} and {theirs.inputs[name]} on rank {peer}"
                for name, value in tale.inputs.items() if theirs.inputs.get(name, value) != value]

    def _look(self) -> None:
        """Reads what peers have posted since the last call."""
        for peer in self._peers:
            times = self._times(peer)
            for number in range(self._known[peer] + 1, times + 1):
                told = self._read(peer, number)
                tale = None if told is None else tale_of(told)
                if tale is None:
                    continue
                self._doing[peer] = [frame for frame in self._doing[peer] if frame != tale.frame]
                if tale.compiles:
                    self._doing[peer].append(tale.frame)
                elif tale.forward:
                    self._theirs[peer][tale.key] = tale
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
