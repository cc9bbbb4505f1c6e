"""What a rank sees of the inputs of a call: named sources and their sizes."""

from __future__ import annotations

import numbers
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ._library import lib, native
from .errors import Error, check
from .field import Spec, Value, declare_field, field_of, object_field, set_field
from .nesting import end_of, kind_of, members_of
from .objects import ObjectTable, Opaque, key_order_text, object_text

_DTYPES = {"bool": "bool", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32",
           "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_MARKS = {"dynamic": 1, "maybe_dynamic": 2, "unbacked": 3, "static": 4, "uniform": 5}
_TENSOR, _INT, _FLOAT, _BOOL = range(4)

#: Name, kind, number of the dtype, number of dims: what a version of a function depends on.
_Source = Tuple[str, int, int, int]


def dtype_word(dtype: Any) -> str:
    """Returns the name of a numpy or torch dtype, such as "float32"."""
    return str(getattr(dtype, "name", dtype)).replace("torch.", "")


def _number_of(word: str) -> int:
    number: int = lib.dtype_from_name(_DTYPES.get(word, word))
    return number


def is_known(dtype: Any) -> bool:
    """True if lockstep has a name for the dtype."""
    return _number_of(dtype_word(dtype)) >= 0


def _dtype_number(name: str, dtype: Any, whole: bool) -> int:
    number = _number_of(dtype_word(dtype))
    if number < 0 and whole:
        return _number_of("uint8")  # the dtype's name becomes a source of its own
    if number < 0:
        raise TypeError(f"{name} has dtype {dtype}, which lockstep does not know; leave the input out "
                        "or convert it")
    return number


def is_scalar(value: Any) -> bool:
    # numpy's numbers are numbers.Real; numpy's bool (bool_, named bool since 2.0) is not.
    return isinstance(value, (int, float, numbers.Real)) or type(value).__name__ in ("bool_", "bool")


def _members(value: Any) -> Optional[Iterator[Tuple[str, Any]]]:
    """Returns the members of a nested value, each with what it adds to the name; None: the value is not nested."""
    kind = kind_of(value)
    if kind is not None:
        return ((end_of(kind, key), member) for key, member in members_of(value))
    if is_jagged(value):
        return iter(((".values()", value.values()), (".offsets()", value.offsets())))
    return None


def is_jagged(value: Any) -> bool:
    """True for torch's jagged tensors: rows of different lengths, one after the other."""
    return bool(getattr(value, "is_nested", False)) and str(value.layout) == "torch.jagged"


def walked(name: str, value: Any, depth: Optional[int] = None) -> Iterator[Tuple[str, Any]]:
    """Yields the leaves of a value, each with its name. Omits leaves more than `depth` levels down (None: no limit)."""
    members = _members(value)
    if members is None:
        yield name, value
    elif depth != 0:
        for end, member in members:
            yield from walked(name + end, member, None if depth is None else depth - 1)


def gradient_of(value: Any) -> Optional[bool]:
    """Returns whether a tensor requires a gradient; None: the value has no such attribute."""
    needed = getattr(value, "requires_grad", None)
    return needed if isinstance(needed, bool) else None


class _Walk:
    """Walks through nested inputs and collects their sources, with values, and their fields."""

    def __init__(self, whole: bool, key_order: bool, objects: Optional[ObjectTable]) -> None:
        self.sources: List[_Source] = []
        self.values: List[int] = []
        self.strides: Dict[int, List[int]] = {}
        self.fields: Dict[Spec, Value] = {}
        self._whole, self._key_order, self._objects = whole, key_order, objects

    def walk(self, name: str, value: Any) -> None:
        members = _members(value)
        if members is not None:
            if self._key_order and isinstance(value, Mapping):
                self._field(field_of(f"{name}.keys()", key_order_text([str(key) for key in value]), "equal"))
            for end, member in members:
                self.walk(name + end if name else end.lstrip("."), member)
        elif isinstance(value, Opaque):
            self._field(object_field(name, object_text(name, value, self._objects)))
        elif isinstance(value, str) or value is None:
            # Such a value has no size, so it becomes part of the name of a source.
            self.sources.append((f"{name}={value!r}"[:200], _FLOAT, 0, 0))
        elif is_scalar(value):
            self._scalar(name, value.item() if hasattr(value, "item") else value)
        elif hasattr(value, "shape") and hasattr(value, "dtype"):
            self._tensor(name, value)
        elif self._whole:
            self.sources.append((f"{name}: {type(value).__qualname__}"[:200], _FLOAT, 0, 0))
        else:
            raise TypeError(f"{name} is of type {type(value).__name__}, which lockstep cannot observe; pass "
                            "arrays, numbers, or lists, dicts and dataclasses of them, or leave it out")

    def _field(self, field: Tuple[Spec, Value]) -> None:
        self.fields[field[0]] = field[1]

    def _scalar(self, name: str, plain: Any) -> None:
        kind = _BOOL if isinstance(plain, bool) else _INT if isinstance(plain, int) else _FLOAT
        if kind == _INT and not -2**63 <= plain < 2**63:
            raise TypeError(f"{name} is {plain}, which does not fit into 64 bits")
        self.sources.append((name, kind, 0, 0))
        if kind != _FLOAT:
            self.values.append(int(plain))

    def _tensor(self, name: str, value: Any) -> None:
        sizes = [int(size) for size in value.shape]
        number = _dtype_number(name, value.dtype, self._whole)
        own = strides_of(value)
        if own is not None and own != contiguous_strides(sizes):
            self.strides[len(self.sources)] = own
        self.sources.append((name, _TENSOR, number, len(sizes)))
        self.values.extend(sizes)
        if self._whole and not is_known(value.dtype):
            self.sources.append((f"{name}.dtype={dtype_word(value.dtype)}", _FLOAT, 0, 0))
        needed = gradient_of(value) if self._whole else None
        if needed is not None:
            self.sources.append((f"{name}.requires_grad", _BOOL, 0, 0))
            self.values.append(int(needed))
            if own:
                self.sources.append((f"{name}.layout", _INT, 0, 0))
                self.values.append(native.layout_of(sizes, own))


def strides_of(value: Any) -> Optional[List[int]]:
    """Returns strides in elements. (numpy has strides in bytes, as an attribute, and torch in elements, as a method.)
    None: the value has no strides."""
    found = getattr(value, "strides", None)
    if found is not None and not callable(found):
        return [int(s) // max(int(value.itemsize), 1) for s in found]
    method = getattr(value, "stride", None)
    return [int(s) for s in method()] if callable(method) else None


def contiguous_strides(sizes: List[int]) -> List[int]:
    out: List[int] = []
    step = 1
    for size in reversed(sizes):
        out.append(step)
        step *= max(size, 1)
    return out[::-1]


#: An agreement's observations, by their sources and fields. They are declared once, so that a call only sets values.
Declared = Dict[Tuple[Any, ...], int]
_MOST_DECLARED = 256


def free_declared(declared: Declared) -> None:
    for handle in declared.values():
        lib.observation_free(handle)
    declared.clear()


class Observation:
    """What this rank sees of the inputs of one call: `Observation(batch=batch, lr=0.1)`. Nested
    values become sources with names like `batch.tokens[0]`: arrays with their sizes, ints and bools
    with their values, floats without a value. None and strings become part of a name. `marks` maps a
    name to {dim: "dynamic" | "maybe_dynamic" | "unbacked" | "static" | "uniform"}; a
    size marked uniform must be the same on all ranks. An Opaque with a key becomes a field."""

    def __init__(self, marks: Optional[Mapping[str, Mapping[int, str]]] = None,
                 **inputs: Any) -> None:
        self._observe(inputs, marks, _Walk(False, False, None))

    @classmethod
    def of(cls, inputs: Mapping[str, Any], marks: Optional[Mapping[str, Mapping[int, str]]] = None,
           whole: bool = False, key_order: bool = False,
           objects: Optional[ObjectTable] = None) -> "Observation":
        """Makes an observation of a mapping. `whole`: a tensor x also has the bool x.requires_grad and the int
        x.layout, the order of its dims in memory (native/plan.h). A dtype that lockstep does not know, or the type of
        a value that cannot be observed, then becomes part of a source's name, as None does.
        `key_order`: for each dict x among the inputs, the order of its keys is the field x.keys(); for
        functions that iterate over dicts. `objects` gives a number to each Opaque without a key."""
        out = cls.__new__(cls)
        out._observe(inputs, marks, _Walk(whole, key_order, objects))
        return out

    def _observe(self, inputs: Mapping[str, Any], marks: Optional[Mapping[str, Mapping[int, str]]],
                 walk: _Walk) -> None:
        for name in inputs:
            walk.walk(name, inputs[name])
        self.values = walk.values
        self._strides = walk.strides
        self._fields = walk.fields
        self.sources = tuple(walk.sources)
        self._marks = self._numbered(marks or {})

    def observe(self, name: str, value: Value, join: str = "equal") -> "Observation":
        """Adds a field: an int, a bool, a str or bytes (of at most 1,024 bytes) which the ranks join
        before a version is built; the joined value is Decision.fields[name]. `join`: "equal" (ranks
        that differ get ConstantMismatch), "min", "max" or "union" (a tuple of the distinct values, ordered by
        their lowest ranks). A version serves calls in which every rank's value is equal to the joined value, not below
        the min, not above the max, or one of the union. Every rank must observe the same fields,
        or all get SourceMismatch. Returns this observation."""
        spec, plain = field_of(name, value, join)
        if name in self.names() or any(known[0] == name for known in self._fields):
            raise ValueError(f"{name} is observed already; give the field another name")
        self._fields[spec] = plain
        return self

    def names(self) -> List[str]:
        """Returns the names of the sources, in the order in which they were given."""
        return [source[0] for source in self.sources]

    def _numbered(self, marks: Mapping[str, Mapping[int, str]]) -> List[Tuple[int, int, int]]:
        numbers = {name: i for i, name in enumerate(self.names())}
        out = []
        for name, dims in marks.items():
            for dim, mark in dims.items():
                if name not in numbers:
                    raise ValueError(f"there is no input {name} to mark; there are "
                                     + ", ".join(numbers))
                if mark not in _MARKS:
                    raise ValueError(f"{mark!r} is no mark; use one of " + ", ".join(_MARKS))
                out.append((numbers[name], int(dim), _MARKS[mark]))
        return out

    def _handle(self, declared: Declared) -> int:
        """Returns the address of the library's observation with these values. The next observation of the same sources
        and fields reuses the library's observation."""
        what = (self.sources, *self._fields) if self._fields else self.sources
        handle = declared.get(what)
        if handle is None:
            if len(declared) >= _MOST_DECLARED:
                free_declared(declared)
            handle = declared[what] = self._declare()
        check(lib.set_all(handle, self.values))
        at = 0
        for i, (_, kind, _, ndim) in enumerate(self.sources):
            if i in self._strides:
                check(lib.set_sizes(handle, i, self.values[at:at + ndim], self._strides[i]))
            at += ndim if kind == _TENSOR else kind != _FLOAT
        for number, (spec, value) in enumerate(self._fields.items()):
            set_field(handle, number, spec, value)
        self._mark(handle)
        return handle

    def _mark(self, handle: int) -> None:
        for source, dim, mark in self._marks:
            check(lib.set_mark(handle, source, dim, mark))

    def _unmark(self, handle: int) -> None:
        for source, dim, _ in self._marks:
            check(lib.set_mark(handle, source, dim, 0))

    def _declare(self) -> int:
        code, handle = lib.observation_create()
        check(code)
        declare = {_INT: lib.observe_int, _FLOAT: lib.observe_float, _BOOL: lib.observe_bool}
        try:
            for name, kind, dtype, ndim in self.sources:
                code, _ = (lib.observe_tensor(handle, name, dtype, ndim) if kind == _TENSOR else
                           declare[kind](handle, name))
                check(code)
            for spec in self._fields:
                declare_field(handle, spec)
        except Error:
            lib.observation_free(handle)
            raise
        return int(handle)
