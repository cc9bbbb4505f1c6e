"""The conditions on sizes that a compiled graph relies on, and the sizes that the graph's collectives need equal, as
text with lockstep's names of the inputs."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ._sizes import elements_of, equals_of, is_implied, least_size, name_of_source, ranges_of, sources_without_value
from .collectives import needs_equal_sizes
from .graph_text import collective_nodes, group_of, place_of
from .size_ranges import tightened

_RELATIONS = {"Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
              "StrictGreaterThan": ">", "GreaterThan": ">="}
_MOST_FACTORS = 4  # largest exponent of a power
_REVERSED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PLACE = re.compile(r"# .*?([^/\s]+:\d+) in ")


class SizeGuard(NamedTuple):
    condition: str  # "x.size(0) % 8 == 0"
    place: str      # "train.py:41"; "": not known


def size_guards(shape_env: Any, names: Mapping[str, str]) -> List[SizeGuard]:
    """Returns the guards of a ShapeEnv, in this order: equations of sizes with expressions of other sizes, bounds of
    all other sizes, and conditions that these bounds do not imply. So a graph has the same guards whether it was built
    or found in a cache: in place of a condition, the cache may keep bounds that imply it. `names`: lockstep's names of
    sizes and ints, by torch's names of their sources ("L['args'][0].size()[0]"). Conditions that lockstep's guards
    cannot express are omitted: torch tests them, and the ranks vote on the result."""
    symbols = _symbols(shape_env, names)
    places: Dict[str, str] = {}
    simplified: List[Tuple[str, Any]] = []
    for guard in shape_env.guards:
        found = _PLACE.search(str(getattr(guard, "sloc", "")))
        place = found.group(1) if found else ""
        for expression in (guard.expr, shape_env.simplify(guard.expr)):
            condition = _condition(expression, symbols)
            if condition is not None:
                places.setdefault(condition, place)
        if condition is not None:
            simplified.append((condition, expression))
    ranges = tightened(ranges_of(shape_env), [expression for _, expression in simplified])
    equal = [_relation("==", _text(left, symbols), _text(right, symbols)) for left, right in equals_of(shape_env)]
    least = least_size(shape_env)
    bounds = [f"{symbols[str(symbol)]} {relation} {value}" for symbol, (low, high) in ranges.items()
              for relation, value in ((">=", None if low == least else low), ("<=", high))
              if value is not None and str(symbol) in symbols]
    others = [condition for condition, expression in simplified if not is_implied(expression, ranges)]
    return [SizeGuard(condition, places.get(condition, "")) for condition in (*filter(None, equal), *bounds, *others)]


class UniformSize(NamedTuple):
    size: str   # "x.size(0)"
    what: str   # "all_reduce"
    place: str  # "train.py:41"


def uniform_sizes(graph: Any, group: Any, shape_env: Any, names: Mapping[str, str]) -> List[UniformSize]:
    """Returns the sizes of inputs that the collectives over `group` in a graph need equal on the group's ranks, each
    once. For a tensor with several symbolic sizes, returns the product of these. Sizes that depend on data, and sizes
    that lockstep's guards cannot express, are compared only when the collective is issued."""
    symbols = {**_symbols(shape_env, names), **{
        symbol: names[source] for symbol, source in sources_without_value(graph).items() if source in names}}
    found: Dict[str, UniformSize] = {}
    for word, node in collective_nodes(graph, within=False):  # a nested graph may be a branch that is not taken
        if not needs_equal_sizes(word) or group_of(node) != group:
            continue
        for elements in elements_of(node):
            text = _text(shape_env.simplify(elements), symbols)
            if text is not None and not text.isdecimal():
                found.setdefault(text, UniformSize(text, word, place_of(node)))
    return list(found.values())


def _symbols(shape_env: Any, names: Mapping[str, str]) -> Dict[str, str]:
    """Returns lockstep's names of sizes and ints, by the symbols of a ShapeEnv."""
    symbols: Dict[str, str] = {}
    for symbol, sources in shape_env.var_to_sources.items():
        known = [names[text] for text in map(name_of_source, sources) if text in names]
        if known:
            symbols[str(symbol)] = known[0]
    return symbols


def _condition(expression: Any, symbols: Mapping[str, str]) -> Optional[str]:
    relation = _RELATIONS.get(type(expression).__name__)
    if relation is None:
        return None
    left, right = expression.args
    if left.is_Integer:
        left, right, relation = right, left, _REVERSED.get(relation, relation)
    for strict, weak, step in (("<", "<=", -1), (">", ">=", 1)):
        if relation == strict and right.is_Integer:
            relation, right = weak, right + step
    return _relation(relation, _text(left, symbols), _text(right, symbols))


def _relation(relation: str, left: Optional[str], right: Optional[str]) -> Optional[str]:
    if left is None or right is None:
        return None
    if relation in ("==", "!=") and not right.isdecimal():
        left, right = sorted((left, right))
    return f"{left} {relation} {right}"


def _text(value: Any, symbols: Mapping[str, str]) -> Optional[str]:
    """Returns the text of a sympy expression; None: lockstep's guards cannot express it."""
    if value.is_Symbol:
        return symbols.get(str(value))
    if value.is_Integer:
        return str(value) if value >= 0 else f"(0 - {-value})"
    parts = [_text(part, symbols) for part in value.args]
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    kind = type(value).__name__
    if kind == "Pow" and value.exp.is_Integer and 1 < value.exp <= _MOST_FACTORS:
        return f"({' * '.join([known[0]] * int(value.exp))})"
    if kind in ("Add", "Mul"):
        return "(" + (" + " if kind == "Add" else " * ").join(known) + ")"
    if kind in ("Mod", "PythonMod", "FloorDiv", "CleanDiv"):
        return f"({known[0]} {'%' if 'Mod' in kind else '//'} {known[1]})"
    return f"{kind}({', '.join(known)})" if kind in ("Min", "Max") and len(known) == 2 else None
