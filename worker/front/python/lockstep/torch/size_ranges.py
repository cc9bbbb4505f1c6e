"""Ranges of sizes, tightened by conditions on sums of sizes."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

Range = Tuple[Optional[int], Optional[int]]  # the least and the largest value; None: no bound
_ROUNDS = 100  # most rounds in which conditions tighten each other's ranges


def tightened(ranges: Mapping[Any, Range], conditions: Sequence[Any]) -> Dict[Any, Range]:
    """Returns the ranges, tightened by those sympy `conditions` that compare sums of multiples of sizes. The result is
    the same if `ranges` have been tightened by some of these conditions before."""
    known, sums = dict(ranges), [total for condition in conditions for total in _sums(condition)]
    for _ in range(_ROUNDS):
        before = dict(known)
        for total in sums:
            if all(symbol in known for symbol in total if symbol != 1):
                _tighten(known, total)
        if known == before:
            break
    return known


def _sums(condition: Any) -> List[Dict[Any, int]]:
    """Returns the sums that a condition requires to be at most 0. Each sum is a dict of the sizes' factors, with the
    constant at key 1."""
    relation = type(condition).__name__
    if relation not in ("LessThan", "StrictLessThan", "GreaterThan", "StrictGreaterThan", "Equality"):
        return []
    left, right = condition.args
    terms = (left - right).expand().as_coefficients_dict()
    if not all((term.is_Symbol or term == 1) and factor.is_Integer for term, factor in terms.items()):
        return []
    up = {1 if term == 1 else term: int(factor) for term, factor in terms.items()}
    down = {term: -factor for term, factor in up.items()}
    if relation == "Equality":
        return [up, down]
    total = up if "Less" in relation else down
    if "Strict" in relation:
        total[1] = total.get(1, 0) + 1
    return [total]


def _tighten(known: Dict[Any, Range], total: Mapping[Any, int]) -> None:
    for symbol, factor in total.items():
        if symbol == 1 or factor == 0:
            continue
        rest: Optional[int] = total.get(1, 0)  # the least value of the other terms
        for other, times in total.items():
            if other in (1, symbol) or rest is None:
                continue
            end = known[other][0 if times > 0 else 1]
            rest = None if end is None else rest + times * end
        if rest is None:
            continue
        low, high = known[symbol]
        if factor > 0:
            most = -rest // factor
            known[symbol] = low, most if high is None else min(high, most)
        else:
            least = -(-rest // -factor)
            known[symbol] = least if low is None else max(low, least), high
