"""Conditions on sizes that a compiled graph relies on, in lockstep's names of the inputs."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ._hooks import is_implied, range_of

_RELATIONS = {"Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
              "StrictGreaterThan": ">", "GreaterThan": ">="}
_PLACE = re.compile(r"# .*?([^/\s]+:\d+) in ")


class SizeGuard(NamedTuple):
    condition: str  # "x.size(0) % 8 == 0"
    place: str      # "train.py:41"; "" where it is not known


def size_guards(shape_env: Any, names: Mapping[str, str]) -> List[SizeGuard]:
    """Of a ShapeEnv: the bounds of each size, then what they do not imply. So a graph that was found in a cache,
    which keeps a condition that bounds imply as those bounds, has the guards of one that was built. `names`: of
    sizes and ints, by torch's names of their sources ("L['args'][0].size()[0]"). Conditions that lockstep's guards
    cannot express are left out: torch tests them itself, and the ranks vote on it."""
    symbols = {}
    for symbol, sources in shape_env.var_to_sources.items():
        known = [names[text] for text in map(_name_of, sources) if text in names]
        if known:
            symbols[str(symbol)] = known[0]
    places: Dict[Tuple[str, bool, int], str] = {}  # of bounds: size, whether it is the upper one, value
    others: List[SizeGuard] = []
    for guard in shape_env.guards:
        relation = _RELATIONS.get(type(guard.expr).__name__)
        if relation is None:
            continue
        found = _PLACE.search(str(getattr(guard, "sloc", "")))
        place = found.group(1) if found else ""
        bound = _bound(relation, *guard.expr.args, symbols)
        if bound is not None:
            places.setdefault(bound, place)
        elif is_implied(guard.expr, shape_env):
            for symbol in guard.expr.free_symbols:
                for is_upper, value in enumerate(range_of(symbol, shape_env)):
                    if value is not None and str(symbol) in symbols:
                        places.setdefault((symbols[str(symbol)], bool(is_upper), value), place)
        else:
            left, right = (_text(side, symbols) for side in guard.expr.args)
            if left is not None and right is not None:
                others.append(SizeGuard(f"{left} {relation} {right}", place))
    tightest: Dict[Tuple[str, bool], int] = {}
    for size, is_upper, value in places:
        tightest[size, is_upper] = (min if is_upper else max)(value, tightest.get((size, is_upper), value))
    return [SizeGuard(f"{size} {'<=' if is_upper else '>='} {value}", places[size, is_upper, value])
            for (size, is_upper), value in tightest.items()] + others


def _bound(relation: str, left: Any, right: Any, symbols: Mapping[str, str]) -> Optional[Tuple[str, bool, int]]:
    """Of one size by a number."""
    if right.is_Symbol and left.is_Integer:
        left, right, relation = right, left, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(relation, "")
    if not (left.is_Symbol and right.is_Integer and str(left) in symbols and relation in ("<", "<=", ">", ">=")):
        return None
    return symbols[str(left)], relation[0] == "<", int(right) + {"<": -1, ">": 1}.get(relation, 0)


def _name_of(source: Any) -> str:
    name = source.name  # a method before torch 2.10
    return str(name() if callable(name) else name)


def _text(value: Any, symbols: Mapping[str, str]) -> Optional[str]:
    """Of a sympy expression; None: it has something that guards do not know."""
    if value.is_Symbol:
        return symbols.get(str(value))
    if value.is_Integer:
        return str(value) if value >= 0 else f"(0 - {-value})"
    parts = [_text(part, symbols) for part in value.args]
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    kind = type(value).__name__
    if kind in ("Add", "Mul"):
        return "(" + (" + " if kind == "Add" else " * ").join(known) + ")"
    if kind in ("Mod", "PythonMod", "FloorDiv", "CleanDiv"):
        return f"({known[0]} {'%' if 'Mod' in kind else '//'} {known[1]})"
    return f"{kind}({', '.join(known)})" if kind in ("Min", "Max") and len(known) == 2 else None
