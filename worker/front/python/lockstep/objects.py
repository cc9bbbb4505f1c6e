"""Inputs other than arrays and numbers: objects, and the order of a dict's keys."""

from __future__ import annotations

import hashlib
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

Key = Union[str, Callable[[Any], str]]


class Opaque:
    """An object whose contents a function may use, such as a tokenizer: another object needs another
    version of the function. `key` identifies the object: a str that is the same in every process, or a function
    of the object that returns such a str. Objects with the same key count as equal, and ranks with different keys
    get ConstantMismatch. Without a key an object equals only itself, and ranks compare the objects' numbers
    ("object 1", "object 2"): each rank numbers its objects in the order in which it first met them. No object is
    kept alive."""

    __slots__ = ("value", "key")

    def __init__(self, value: Any, key: Optional[Key] = None) -> None:
        self.value = value
        self.key = key


class ObjectTable:
    """The objects that one function has met, as weak references, each with a number. Numbers are given out in
    order and never reused."""

    def __init__(self) -> None:
        self._known: Dict[int, Tuple["weakref.ref[Any]", int]] = {}
        self._last = 0

    def __len__(self) -> int:
        return sum(known() is not None for known, _ in self._known.values())

    def number_of(self, name: str, value: Any) -> int:
        found = self._known.get(id(value))
        if found is not None and found[0]() is value:
            return found[1]
        try:
            met = weakref.ref(value)
        except TypeError:
            raise TypeError(f"{name} is an object of type {type(value).__name__}, which Python cannot "
                            "refer to without keeping it alive; give Opaque a key") from None
        self._known = {at: known for at, known in self._known.items() if known[0]() is not None}
        self._last += 1
        self._known[id(value)] = (met, self._last)
        return self._last


def object_text(name: str, opaque: Opaque, table: Optional[ObjectTable]) -> str:
    """Returns the text by which the ranks compare an object."""
    if opaque.key is not None:
        text = opaque.key if isinstance(opaque.key, str) else opaque.key(opaque.value)
        if not isinstance(text, str):
            raise TypeError(f"the key of {name} is of type {type(text).__name__}; it is a str, or a "
                            "function that gives one")
        return text
    if table is None:
        raise TypeError(f"{name} is an object without a key, and nothing remembers which objects there "
                        "were; give Opaque a key, or pass it to a function of agreed()")
    return f"object {table.number_of(name, opaque.value)}"


_MOST_KEYS_BYTES = 512


def key_order_text(keys: List[str]) -> str:
    """Returns the keys, separated by commas; if the keys are long or contain commas, their number and a digest."""
    text = ", ".join(keys)
    if len(text.encode()) <= _MOST_KEYS_BYTES and not any(", " in key for key in keys):
        return text
    digest = hashlib.sha256()
    for key in keys:
        raw = key.encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return f"{len(keys)} keys, {digest.hexdigest()[:32]}"
