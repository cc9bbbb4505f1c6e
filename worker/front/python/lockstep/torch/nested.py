"""Reading and rebuilding nested inputs."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ..nesting import ITEMS, end_of, kind_of, members_of, python_end_of, with_members
from ..observation import is_jagged, is_scalar


def readable(name: str, value: Any) -> Dict[str, Any]:
    """Returns, by name, what can be read of a leaf: a scalar or a tensor itself, the values and offsets of a jagged
    tensor, nothing of any other leaf."""
    if is_scalar(value):
        return {name: value}
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return {}
    if is_jagged(value):
        return {f"{name}.values()": value.values(), f"{name}.offsets()": value.offsets()}
    if getattr(value, "is_nested", False):
        return {}
    return {name: value} if all(type(size) is int for size in value.shape) else {}


def rebuilt(value: Any, path: str, name: str, leaf: Callable[[Any, str, str], Any]) -> Any:
    """Returns a copy of a nested value in which each leaf is replaced by the result of `leaf`(value of the leaf,
    torch's name of its source, lockstep's name). `path` and `name`: these names of `value`."""
    kind = kind_of(value)
    if kind is None or kind == ITEMS and type(value) not in (list, tuple):
        return leaf(value, path, name)
    return with_members(value, [rebuilt(member, path + python_end_of(kind, key), name + end_of(kind, key), leaf)
                                for key, member in members_of(value)])
