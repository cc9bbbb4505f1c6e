"""Values that hold others (mappings, dataclasses, named tuples, lists and tuples), and the names of their members."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, List, Optional, Sequence, Tuple

KEYS, FIELDS, ITEMS = "keys", "fields", "items"


def kind_of(value: Any) -> Optional[str]:
    """Returns how a value holds its members: by KEYS, FIELDS or ITEMS; None: it has no members."""
    if isinstance(value, Mapping):
        return KEYS
    if dataclasses.is_dataclass(value) and not isinstance(value, type) or _is_named(value):
        return FIELDS
    return ITEMS if isinstance(value, (list, tuple)) else None


def _is_named(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def members_of(value: Any) -> List[Tuple[Any, Any]]:
    """Returns the members, each with its key, the name of its field, or its index."""
    kind = kind_of(value)
    if kind == KEYS:
        return [(key, value[key]) for key in value]
    if kind == FIELDS:
        names = value._fields if _is_named(value) else [field.name for field in dataclasses.fields(value)]
        return [(name, getattr(value, name)) for name in names]
    return list(enumerate(value)) if kind == ITEMS else []


def end_of(kind: str, key: Any) -> str:
    """Returns what a member adds to the name of its holder: "batch.tokens[0]" is "batch" with ".tokens" and "[0]"."""
    return f"[{key}]" if kind == ITEMS else f".{key}"


def python_end_of(kind: str, key: Any) -> str:
    """Returns what a member adds to the name of its holder, as Python source."""
    return f"[{key!r}]" if kind == KEYS else end_of(kind, key)


def with_members(value: Any, members: Sequence[Any]) -> Any:
    """Returns a copy of `value` with these members, in the order of members_of()."""
    kind = kind_of(value)
    if kind == ITEMS:
        return type(value)(members)
    if _is_named(value):
        return type(value)(*members)
    made = copy.copy(value)
    for (key, _), member in zip(members_of(value), members):
        put(made, key, member)
    return made


def put(holder: Any, key: Any, member: Any) -> None:
    """Replaces a member of a mapping, a dataclass or a list in place."""
    if kind_of(holder) == FIELDS:
        object.__setattr__(holder, key, member)
    else:
        holder[key] = member
