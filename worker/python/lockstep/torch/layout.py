"""The order of the dims of tensors in memory, which ranks agree on as the int x.layout (observation.py)."""

from __future__ import annotations

from typing import Any, FrozenSet, List, Mapping, Optional, Tuple

import torch

from ..decision import Decision
from ..observation import contiguous_strides
from .nested import rebuilt

_END = ".layout"


def order_of(decision: Decision, name: str, dims: int) -> Optional[List[int]]:
    """The dims of a tensor from the outermost to the innermost; None: nobody has observed them."""
    code = decision.inputs.get(name + _END)
    if code is None:
        return None
    if isinstance(code, int) and len(str(code)) == dims and code > 0:
        return [int(digit) - 1 for digit in str(code)]
    return list(range(dims))


def made_contiguous(decision: Decision) -> FrozenSet[str]:
    """Names of the tensors that are to be contiguous when the version runs: ranks or calls differ in their layout,
    or they have gaps."""
    tensors = [source[:-len(_END)] for source, code in decision.inputs.items()
               if source.endswith(_END) and (isinstance(code, str) or code == 0)]
    return frozenset(name for name in tensors if isinstance(decision.inputs.get(name), list))


def is_layout(source: str, decision: Decision) -> bool:
    return source.endswith(_END) and isinstance(decision.inputs.get(source[:-len(_END)]), list)


class Contiguous:
    """`args` and `kwargs` with contiguous copies of the tensors named."""

    def __init__(self, names: FrozenSet[str], positional: List[str], args: Tuple[Any, ...],
                 kwargs: Mapping[str, Any]) -> None:
        self._names = names
        self._copies: List[Tuple[torch.Tensor, torch.Tensor, int]] = []  # the tensor, its copy, its version
        self.args = tuple(self._within(value, name) for name, value in zip(positional, args))
        self.kwargs = {name: self._within(value, name) for name, value in kwargs.items()}

    def _within(self, value: Any, name: str) -> Any:
        if not any(known == name or known.startswith((name + ".", name + "[")) for known in self._names):
            return value
        return rebuilt(value, "", name, self._leaf)

    def _leaf(self, value: Any, _path: str, name: str) -> Any:
        if name not in self._names or type(value) is not torch.Tensor:
            return value
        for known, copy, _ in self._copies:
            if known is value:
                return copy
        if list(value.stride()) == contiguous_strides(list(value.shape)):
            return value
        copy = value.clone(memory_format=torch.contiguous_format)
        self._copies.append((value, copy, copy._version))
        return copy

    def write_back(self) -> None:
        """What has been written into copies, into the tensors of the call."""
        for value, copy, version in self._copies:
            if copy._version != version:
                value.copy_(copy)

