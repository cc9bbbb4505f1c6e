"""The inputs of one call site, read by plans: one for each structure of inputs."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ._library import lib, native
from .errors import check
from .nesting import ITEMS, KEYS, kind_of, members_of
from .observation import Observation, gradient_of, is_jagged, is_known, is_scalar, strides_of

_OTHER = -1  # Plan::kOther
_MOST_PLANS = 16


def plan_of(value: Any, whole: bool = False) -> Optional[Tuple[Any, ...]]:
    """Returns the tree by which the extension reads values of this structure (native/plan.cpp); None: it cannot read
    them. Sources are in the order of Observation.of(); `whole` is as for that function."""
    kind, holds = type(value), kind_of(value)
    if holds is not None:
        if holds == KEYS and (kind is not dict or any(type(key) is not str for key in value)):
            return None  # 1 and True are equal as keys, but have different names
        children = tuple((key, plan_of(member, whole)) for key, member in members_of(value))
        if any(child is None for _, child in children):
            return None
        return holds, kind, tuple(child for _, child in children) if holds == ITEMS else children
    if value is None or kind is str:
        return ("same", kind, value)
    if kind in (bool, int, float):
        return (kind.__name__, kind)
    if is_scalar(value) or is_jagged(value) or not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None
    with_gradient = whole and gradient_of(value) is not None
    return ("tensor", value, value.dtype, with_gradient, whole and not is_known(value.dtype),
            with_gradient and bool(strides_of(value)))


class CallSite:
    """Reads the inputs of calls into observations of the library. Keeps one observation per structure of inputs."""

    def __init__(self, whole: bool = False) -> None:
        """`whole`: as for Observation.of()."""
        self._whole = whole
        self._plans: List[Tuple[Any, int]] = []

    def read(self, value: Any) -> Optional[int]:
        """Returns the address of an observation that holds this value; None: no plan fits the value. Raises
        BadInput."""
        for i, (plan, handle) in enumerate(self._plans):
            code = plan.read(value)
            if code != _OTHER:
                if i > 0:
                    self._plans.insert(0, self._plans.pop(i))
                check(code)
                return handle
        return None

    def learn(self, value: Any, observation: Observation) -> None:
        """Makes a plan for values of this structure; `observation` is that of `value`."""
        tree = plan_of(value, self._whole)
        if tree is None:
            return
        if len(self._plans) >= _MOST_PLANS:
            lib.observation_free(self._plans.pop()[1])
        handle = observation._declare()
        observation._mark(handle)
        self._plans.insert(0, (native.Plan(tree, handle), handle))

    def free(self) -> None:
        for _, handle in self._plans:
            lib.observation_free(handle)
        self._plans.clear()
