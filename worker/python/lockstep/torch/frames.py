"""A frame that torch compiles, and its graph, as ranks compare them. Without torch."""

from __future__ import annotations

import types
from typing import Any, Dict, List, NamedTuple, Optional


class Compile(NamedTuple):
    """One under way."""

    code: types.CodeType               # of the function
    closure: Any                       # the cells of its closure
    variables: Dict[str, Any]          # its local variables, by name
    caller: Optional[types.FrameType]  # that calls the function


class GraphText(NamedTuple):
    """Lines; what follows a tab in a line is the place in the user's code, which may differ."""

    nodes: List[str]
    collectives: List[str]


#: Of a frame that runs without a graph: its collectives are as little known as its work.
UNTRACED = GraphText(["runs without a graph"], ["those of code without a graph"])


def compared(lines: List[str]) -> str:
    """Without the places in the user's code."""
    return "\n".join(line.split("\t", 1)[0] for line in lines)
