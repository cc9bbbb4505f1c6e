"""Values that hold others: lists, tuples, mappings, dataclasses, and tensors of rows of other lengths."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, Callable, Dict

from ..observation import is_jagged, is_scalar


def readable(name: str, value: Any) -> Dict[str, Any]:
    """What can be read of a value that holds no others, by name: a scalar, or a tensor with sizes; of a jagged one its values
    and offsets; of anything else nothing."""
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
    """A nested value with what `leaf` makes of each value that holds no others. It gets torch's name of the
    place and lockstep's."""
    if isinstance(value, Mapping):
        mapping: Any = copy.copy(value)
        for key, item in value.items():
            mapping[key] = rebuilt(item, f"{path}[{key!r}]", f"{name}.{key}", leaf)
        return mapping
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(made, field.name, rebuilt(
                getattr(value, field.name), f"{path}.{field.name}", f"{name}.{field.name}", leaf))
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(rebuilt(getattr(value, field), f"{path}.{field}", f"{name}.{field}", leaf)
                             for field in value._fields))
    if type(value) in (list, tuple):
        return type(value)(rebuilt(item, f"{path}[{i}]", f"{name}[{i}]", leaf) for i, item in enumerate(value))
    return leaf(value, path, name)
