"""Frames that torch compiles, and their graphs as ranks compare them. Without torch."""

from __future__ import annotations

import types
from typing import Any, Dict, List, NamedTuple, Optional


class Compile(NamedTuple):
    """A running compile."""

    code: types.CodeType               # code of the function that is compiled
    closure: Any                       # the cells of the function's closure
    variables: Dict[str, Any]          # the function's local variables, by name
    caller: Optional[types.FrameType]  # the frame that calls the function


class GraphText(NamedTuple):
    """A graph as lines. Text after a tab in a line is the place in the user's code, which may differ."""

    nodes: List[str]
    collectives: List[str]


#: The text of a frame that runs without a graph: neither the nodes nor the collectives are known.
UNTRACED = GraphText(["runs without a graph"], ["those of code without a graph"])


def compared(lines: List[str]) -> str:
    """Returns the lines without the places in the user's code."""
    return "\n".join(line.split("\t", 1)[0] for line in lines)
