"""The order of tensors' dims in memory, on which ranks agree as the int x.layout (observation.py)."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

import torch

from ..decision import Decision
from ..nesting import end_of, kind_of, members_of, put, with_members
from ..observation import contiguous_strides

_END = ".layout"


def order_of(decision: Decision, name: str, dims: int) -> Optional[List[int]]:
    """Returns the dims of a tensor in the version of `decision`, from the outermost to the innermost in memory; None:
    the order was not observed."""
    code = decision.inputs.get(name + _END)
    if code is None:
        return None
    if isinstance(code, int) and len(str(code)) == dims and code > 0:
        return [int(digit) - 1 for digit in str(code)]
    return list(range(dims))


def made_contiguous(decision: Decision) -> FrozenSet[str]:
    """Returns the names of the tensors that must be contiguous when the version runs, because ranks or calls differ in
    the tensor's layout, or there are gaps between its elements."""
    tensors = [source[:-len(_END)] for source, code in decision.inputs.items()
               if source.endswith(_END) and (isinstance(code, str) or code == 0)]
    return frozenset(name for name in tensors if isinstance(decision.inputs.get(name), list))


def is_layout(source: str, decision: Decision) -> bool:
    return source.endswith(_END) and isinstance(decision.inputs.get(source[:-len(_END)]), list)


class Contiguous:
    """`args` and `kwargs` with contiguous copies of the named tensors, except tensors that share memory with another
    argument. The call's own lists, mappings and dataclasses hold the copies until restore()."""

    def __init__(self, names: FrozenSet[str], positional: List[str], args: Tuple[Any, ...],
                 kwargs: Dict[str, Any]) -> None:
        self._names = names
        self._copies: List[Tuple[torch.Tensor, torch.Tensor, Optional[int]]] = []  # tensor, copy, copy's counter of writes
        self._undo: List[Callable[[], None]] = []
        self._memory: Dict[int, int] = {}  # number of tensors by the address of their memory
        self._counted: Dict[int, Any] = {}
        self._count([*args, *kwargs.values()])
        try:
            self.args = tuple(self._within(value, name) for name, value in zip(positional, args))
            self.kwargs = {name: self._within(value, name) for name, value in kwargs.items()}
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Puts the tensors of the call back into its containers, and copies to them what the function has written to
        their copies."""
        for undo in reversed(self._undo):
            undo()
        for value, copy, version in self._copies:
            if copy._version != version if version is not None else not torch.equal(value, copy):
                with torch.set_grad_enabled(torch.is_grad_enabled() and not (value.is_leaf and value.requires_grad)):
                    value.copy_(copy)

    def _count(self, values: List[Any]) -> None:
        for value in values:
            if id(value) in self._counted:
                continue
            self._counted[id(value)] = value
            if isinstance(value, torch.Tensor):
                if _is_plain(value):
                    at = value.untyped_storage().data_ptr()
                    self._memory[at] = self._memory.get(at, 0) + 1
            else:
                self._count([item for _, item in members_of(value)])

    def _within(self, value: Any, name: str) -> Any:
        if isinstance(value, torch.Tensor):
            return self._copied(value) if name in self._names else value
        if not any(known.startswith((name + ".", name + "[")) for known in self._names):
            return value
        kind = kind_of(value)
        if kind is None:
            return value
        members = [(key, old, self._within(old, name + end_of(kind, key))) for key, old in members_of(value)]
        if all(old is new for _, old, new in members):
            return value
        if isinstance(value, tuple):
            return with_members(value, [new for _, _, new in members])
        for key, old, new in members:
            if old is not new:
                put(value, key, new)
                self._undo.append(lambda key=key, old=old, new=new: _put_back(value, key, old, new))  # type: ignore[misc]
        return value

    def _copied(self, value: torch.Tensor) -> torch.Tensor:
        for known, copy, _ in self._copies:
            if known is value:
                return copy
        if type(value) is not torch.Tensor or value.layout is not torch.strided or \
                list(value.stride()) == contiguous_strides(list(value.shape)) or \
                self._memory.get(value.untyped_storage().data_ptr(), 0) > 1:
            return value
        copy = value.clone(memory_format=torch.contiguous_format)
        self._copies.append((value, copy, None if copy.is_inference() else copy._version))
        return copy


def _is_plain(value: torch.Tensor) -> bool:
    """Returns whether a value is an ordinary tensor that has elements, in strided memory."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided and value.numel() > 0


def _put_back(holder: Any, key: Any, old: Any, new: Any) -> None:
    """Puts back `old` in place of `new`, unless the function has replaced `new`."""
    if any(known == key and item is new for known, item in members_of(holder)):
        put(holder, key, old)
