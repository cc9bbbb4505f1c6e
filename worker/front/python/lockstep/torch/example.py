"""Inputs for the trace of a version, made from a decision, so that their sizes are equal on all ranks."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch

from ..decision import Decision, Symbol
from ..observation import is_jagged, walked
from ._sizes import mark_size
from .layout import order_of
from .nested import rebuilt

#: Marks that a program sets on tensors: torch's attribute, and lockstep's name of the mark.
_MARKED = (("_dynamo_weak_dynamic_indices", "maybe_dynamic"), ("_dynamo_dynamic_indices", "dynamic"),
           ("_dynamo_unbacked_indices", "unbacked"), ("_dynamo_static_indices", "static"))


class Example:
    """`args` and `kwargs` like those of the call, with the sizes and ints of the decision."""

    def __init__(self, decision: Decision, names: List[str], args: Tuple[Any, ...], kwargs: Mapping[str, Any],
                 marks_only: bool = False) -> None:
        """`names`: lockstep's names of the positional arguments. `marks_only`: keeps the call's own tensors, and only
        marks their sizes."""
        self._decision, self._marks_only = decision, marks_only
        #: lockstep's names of sizes and ints on which a version may rely, by torch's names of their sources.
        self.names: Dict[str, str] = {}
        self._made: Dict[int, torch.Tensor] = {}  # by id of the call's tensor: it may be passed twice
        #: torch's names of ints that are symbols.
        self.dynamic_ints: List[str] = []
        self.args = tuple(rebuilt(value, f"L['args'][{i}]", names[i], self._leaf) for i, value in enumerate(args))
        self.kwargs = {key: rebuilt(value, f"L['kwargs'][{key!r}]", key, self._leaf) for key, value in kwargs.items()}

    def _leaf(self, value: Any, path: str, name: str) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path, name)
        return self._int(path, name) if type(value) is int else value

    def _int(self, path: str, name: str) -> int:
        found = self._decision.inputs[name]
        self.names[path] = name
        if isinstance(found, int):
            return found
        self.dynamic_ints.append(path)
        return self._decision.symbols[found].hint

    def _tensor(self, value: torch.Tensor, path: str, name: str) -> Any:
        if is_jagged(value):
            self._mark(value, value._values, f"{path}._values", f"{name}.values()")
            self._mark(value, value._offsets, f"{path}._offsets", f"{name}.offsets()")
            rows = self._decision.size(f"{name}.offsets()", 0)
            if isinstance(rows, Symbol):  # then the number of rows (offsets less 1) is a symbol too
                mark_size(value, 0, rows.min, rows.hint - 1, False)
            return value
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            return value  # a subclass of Tensor, such as DTensor
        sizes = [self._decision.size(name, dim) for dim in range(value.dim())]
        numbers = [size.hint if isinstance(size, Symbol) else size for size in sizes]
        made = value if self._marks_only else self._made.get(id(value))
        if made is None or (made is not value and list(made.shape) != numbers):
            order = order_of(self._decision, name, value.dim()) if type(value) is torch.Tensor else None
            made = self._made[id(value)] = _zeros_like(value, numbers, order)
        self._mark(value, made, path, name)
        return made

    def _mark(self, value: torch.Tensor, made: torch.Tensor, path: str, name: str) -> None:
        """Marks the sizes of `made` that are symbols. `value`: the call's tensor."""
        for dim in range(made.dim()):
            size = self._decision.size(name, dim)
            if not isinstance(size, Symbol) or not size.unbacked:
                self.names[f"{path}.size()[{dim}]"] = f"{name}.size({dim})"
            if isinstance(size, Symbol):
                mark_size(made, dim, size.min, size.hint, dim in getattr(value, "_dynamo_dynamic_indices", ()))


def _zeros_like(value: torch.Tensor, sizes: List[int], order: Optional[List[int]]) -> torch.Tensor:
    """Returns zeros like `value`, with these sizes and this order of dims in memory (None: that of `value`)."""
    strides = value.stride()
    if order is None:
        order = sorted(range(value.dim()), key=lambda dim: (-strides[dim], dim))
    made = torch.zeros([sizes[dim] for dim in order], dtype=value.dtype, device=value.device)
    made = made.permute([order.index(dim) for dim in range(value.dim())])
    if type(value) is torch.nn.Parameter:
        return torch.nn.Parameter(made, value.requires_grad)
    return made.requires_grad_(value.requires_grad)


def marks_of(value: Any, name: str, out: Dict[str, Dict[int, str]], dynamic: bool) -> None:
    """Adds to `out` the marks that the program has set on tensors within `value`. `dynamic`: sizes without a mark are
    maybe_dynamic."""
    for at, leaf in walked(name, value):
        if not isinstance(leaf, torch.Tensor):
            continue
        if dynamic:
            out.setdefault(at, {}).update({dim: "maybe_dynamic" for dim in range(leaf.dim())})
        for attribute, mark in _MARKED:
            for dim in getattr(leaf, attribute, ()):
                out.setdefault(at, {})[dim] = mark
