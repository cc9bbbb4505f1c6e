"""Fields: values that the ranks join to one for each version of a function."""

from __future__ import annotations

from typing import Any, Dict, Tuple, Union

from ._library import lib
from .errors import check

_BOOL, _INT, _TEXT, _BYTES, _OBJECT = range(5)
_JOINS = {"equal": 0, "min": 1, "max": 2, "union": 3}
_MOST_BYTES = 1024

Value = Union[bool, int, str, bytes]
#: Name, number of the type, and number of the join of a field; they must be equal on all ranks.
Spec = Tuple[str, int, int]


def field_of(name: str, value: Any, join: str) -> Tuple[Spec, Value]:
    """Returns the field's spec and plain value. Raises TypeError and ValueError, which name the field."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a field is a str, not {type(name).__name__}")
    if not name:
        raise ValueError("a field has an empty name; name it, such as \"capacity\"")
    if join not in _JOINS:
        raise ValueError(f"{join!r} is no join for field {name}; use one of " + ", ".join(_JOINS))
    # numpy's numbers convert to plain ones by item().
    plain = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
    if isinstance(plain, bool):
        return (name, _BOOL, _JOINS[join]), plain
    if isinstance(plain, int):
        if not -2**63 <= plain < 2**63:
            raise TypeError(f"field {name} is {plain}, which does not fit into 64 bits")
        return (name, _INT, _JOINS[join]), plain
    if isinstance(plain, (bytearray, memoryview)):
        plain = bytes(plain)
    if not isinstance(plain, (str, bytes)):
        raise TypeError(f"field {name} is of type {type(value).__name__}; a field is an int, a bool, a "
                        "str or bytes")
    _check_length(name, plain)
    return (name, _TEXT if isinstance(plain, str) else _BYTES, _JOINS[join]), plain


def object_field(name: str, text: str) -> Tuple[Spec, Value]:
    """Returns the field of a text that names an object; it must be equal on all ranks."""
    _check_length(name, text)
    return (name, _OBJECT, _JOINS["equal"]), text


def _check_length(name: str, value: Union[str, bytes]) -> None:
    count = len(_encoded(value))
    if count > _MOST_BYTES:
        raise ValueError(f"field {name} has {count} bytes and a field takes at most {_MOST_BYTES}; give "
                         "a digest or a number in its place")


def _encoded(value: Union[str, bytes]) -> bytes:
    return value.encode() if isinstance(value, str) else value


def declare_field(handle: int, spec: Spec) -> None:
    name, kind, join = spec
    code, _ = lib.observe_field(handle, name, kind, join)
    check(code)


def set_field(handle: int, number: int, spec: Spec, value: Value) -> None:
    if spec[1] == _BOOL:
        check(lib.set_field_bool(handle, number, value))
    elif spec[1] == _INT:
        check(lib.set_field_int(handle, number, value))
    else:
        assert isinstance(value, (str, bytes))
        check(lib.set_field_bytes(handle, number, _encoded(value)))


def joined_fields(decision: int) -> Dict[str, Any]:
    """Returns the joined fields of a decision (by address): values by name, a union as a tuple."""
    out: Dict[str, Any] = {}
    for field in range(lib.decision_fields(decision)):
        kind = lib.decision_field_type(decision, field)
        values = tuple(_value(decision, field, i, kind)
                       for i in range(lib.decision_field_values(decision, field)))
        union = lib.decision_field_join(decision, field) == _JOINS["union"]
        out[lib.decision_field_name(decision, field)] = values if union else values[0]
    return out


def _value(decision: int, field: int, place: int, kind: int) -> Value:
    if kind in (_BOOL, _INT):
        code, number = lib.decision_field_int(decision, field, place)
        check(code)
        return bool(number) if kind == _BOOL else int(number)
    raw: bytes = lib.decision_field_bytes(decision, field, place)
    return raw if kind == _BYTES else raw.decode(errors="replace")
