"""Collectives of torch.distributed in words, so that ranks can compare them: those of a graph before it
runs, and those that are issued, by eager code or by compiled code."""

from __future__ import annotations

import os
import sys
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ._hooks import Kernels, group_of, reduction

#: Folders of torch and lockstep.
INSIDE = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
_DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
           torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
           torch.uint8: "u8", torch.bool: "bool"}
#: More lines than these are kept by their fingerprint only.
_MOST_LINES = 4096


class _Operator(NamedTuple):
    word: str
    payload: int        # the argument that all ranks have alike
    sizes: bool = True  # ranks must have the same ones
    group: int = 1      # the argument that is the process group
    reduces: bool = False  # the one after it says how


#: Operators that every rank of a group takes part in. Of sends and receives nothing is compared.
_OPERATORS: Dict[str, _Operator] = {
    "allreduce_": _Operator("all_reduce", 0, reduces=True),
    "allreduce_coalesced_": _Operator("all_reduce", 0, reduces=True),
    "broadcast_": _Operator("broadcast", 0), "reduce_": _Operator("reduce", 0, reduces=True),
    "barrier": _Operator("barrier", 0, False), "monitored_barrier_": _Operator("monitored_barrier", 0, False),
    "allgather_": _Operator("all_gather", 1, False, 2), "gather_": _Operator("gather", 1, False, 2),
    "allgather_coalesced_": _Operator("all_gather", 1, False, 2),
    "_allgather_base_": _Operator("all_gather_into_tensor", 1, True, 2),
    "allgather_into_tensor_coalesced_": _Operator("all_gather_into_tensor", 1, True, 2),
    "gather_into_tensor_": _Operator("gather_into_tensor", 1, True, 2),
    "scatter_": _Operator("scatter", 0, True, 2),
    "reduce_scatter_": _Operator("reduce_scatter", 1, True, 2, True),
    "_reduce_scatter_base_": _Operator("reduce_scatter_tensor", 1, True, 2, True),
    "reduce_scatter_tensor_coalesced_": _Operator("reduce_scatter_tensor", 1, True, 2, True),
    "alltoall_": _Operator("all_to_all", 1, False, 2),
    "alltoall_base_": _Operator("all_to_all_single", 1, False, 2),
}


def dtype_name(dtype: Any) -> str:
    return _DTYPES.get(dtype) or str(dtype).replace("torch.", "")


def tensor_text(dtype: Any, sizes: Optional[List[Any]]) -> str:
    """ "f32[4, 16]"; sizes that are None are not known; no list: they may differ between ranks."""
    if sizes is None:
        return dtype_name(dtype)
    return f"{dtype_name(dtype)}[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def user_place(frame: Optional[types.FrameType]) -> str:
    """ "train.py:41": the line of the innermost function that is neither torch's nor lockstep's."""
    while frame is not None and frame.f_code.co_filename.startswith((*INSIDE, "<eval_with_key>")):
        frame = frame.f_back
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _tensors(value: Any) -> List[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in _tensors(item)]


def _text(operator: _Operator, args: Sequence[Any]) -> str:
    if "barrier" in operator.word:
        return operator.word
    tensors = _tensors(args[operator.payload])
    word = f"{operator.word} {reduction(args[operator.group + 1])}".rstrip() if operator.reduces else operator.word
    shown = [tensor_text(tensor.dtype, list(tensor.shape) if operator.sizes else None) for tensor in tensors[:4]]
    if len(tensors) > 4:
        shown.append(f"and {len(tensors) - 4} more")
    return f"{word} {', '.join(shown)}"


class Issued:
    """The collectives that this process issues on one process group, in order: seen by kernels in Python, where there is
    no part for this torch that sees them (lines.py)."""

    def __init__(self, process_group: Any, fingerprint: Callable[[str], str],
                 before: Callable[[str, str], bool]) -> None:
        """`before`(what, place) is called before each is issued, on whatever thread issues it. False:
        it does not count. What raises is not issued. `fingerprint`: of a text."""
        self._name = process_group.group_name
        self._fingerprint, self._before = fingerprint, before
        self._lines: List[str] = []
        self._kernels = Kernels({name: self._noting(operator) for name, operator in _OPERATORS.items()})

    def _noting(self, operator: _Operator) -> Callable[..., None]:
        def note(*args: Any, **kwargs: Any) -> None:
            if group_of(args[operator.group]).group_name != self._name:
                return
            what, place = _text(operator, args), user_place(sys._getframe(1))
            if not self._before(what, place):
                return
            self._lines.append(f"{what}\tat {place}")
            if len(self._lines) > _MOST_LINES:
                mark = self._fingerprint("\n".join(line.split("\t")[0] for line in self._lines))
                self._lines = [f"{len(self._lines)} collectives, {mark}"]
        return note

    def notes(self) -> List[str]:
        """Those since clear(), one a line; the place follows a tab."""
        return self._lines

    def clear(self) -> None:
        self._lines = []

    def remove(self) -> None:
        self._kernels.remove()


#: Collectives of graphs: the word, and whether all ranks have the same sizes.
_IN_GRAPHS: Dict[str, Tuple[str, bool]] = {
    "all_to_all_single": ("all_to_all_single", False), "wait_tensor": ("", False),
}


def graph_word(operator: Any) -> Optional[Tuple[str, bool]]:
    """Of a node's target: its word and whether ranks must have the same sizes; None: no collective."""
    space = str(getattr(operator, "namespace", getattr(operator, "_qualified_op_name", "")))
    name = str(getattr(operator, "__name__", "")).split(".")[0]
    if not space.startswith("_c10d_functional"):
        return None
    word, sizes = _IN_GRAPHS.get(name.rstrip("_"), (name.rstrip("_"), True))
    return (word, sizes) if word else None
