"""Python kernels in front of each operator of torch.distributed, for a release of torch for which the package has no
native part (part.py). They post and compare operations before these are issued, but cannot end waits. The arguments of
each operator are read as in native/torch_operators.h."""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._library import lib
from ..errors import Error
from ..lines import NEEDS_ALL, NEEDS_NOBODY, NEEDS_ROOT, NEEDS_SENDERS, Operation
from ._hooks import Kernels, group_of, reduction
from .collectives import dtype_name, tensor_text, user_place
from .part import Marks

#: Beyond this number, only the count and a fingerprint of the notes are kept.
_MOST_LINES = 4096
_SHOWN_TENSORS = 4


class Read:
    """An operation as read from an operator's arguments."""

    payload: List[torch.Tensor] = []  # tensors to show in texts: those equal in size on all members, or those sent
    elements: Sequence[int] = ()
    to: Sequence[int] = ()
    of: Sequence[int] = ()
    root, needs = -1, NEEDS_ALL


_Arguments = Dict[str, Any]


def _tensors(value: Any) -> List[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [] if value is None else [tensor for item in value for tensor in _tensors(item)]


def _sizes(value: Any) -> List[int]:
    return [tensor.numel() for tensor in _tensors(value)]


def _first(a: _Arguments, *names: str) -> Any:
    return next((a[name] for name in names if name in a), None)


def _alike(a: _Arguments, rank: int, size: int) -> Read:
    read = Read()
    read.payload = _tensors(_first(a, "tensors", "input_tensor", "inputs"))
    read.elements = [tensor.numel() for tensor in read.payload]
    return read


def _rooted(a: _Arguments, rank: int, size: int) -> Read:
    read = _alike(a, rank, size)
    read.root = a["root_rank"]
    if "reduce_op" in a:
        read.needs = NEEDS_ALL if rank == read.root else NEEDS_NOBODY
    else:
        read.needs = NEEDS_NOBODY if rank == read.root else NEEDS_ROOT
    return read


def _nothing(a: _Arguments, rank: int, size: int) -> Read:
    return Read()


def _lists(a: _Arguments, rank: int, size: int) -> Read:
    read = Read()
    read.payload = _tensors(_first(a, "input_tensors", "input_list"))
    read.elements = _sizes(read.payload if "reduce_op" in a else _first(a, "output_tensors", "output_lists"))
    return read


def _gather(a: _Arguments, rank: int, size: int) -> Read:
    read = Read()
    read.root, read.payload = a["root_rank"], _tensors(_first(a, "input_tensors", "input_tensor"))
    mine = _sizes(read.payload)
    if "input_tensor" in a:
        read.elements = mine
    if rank != read.root:
        read.to, read.needs = mine[:1] or [0], NEEDS_NOBODY
    elif "output_tensors" in a:
        read.of = _sizes(a["output_tensors"])
    return read


def _scatter(a: _Arguments, rank: int, size: int) -> Read:
    read = Read()
    read.root, read.payload = a["root_rank"], _tensors(a["output_tensors"])
    if rank == read.root:
        read.to, read.needs = _sizes(a["input_tensors"]), NEEDS_NOBODY
    else:
        read.of, read.needs = _sizes(read.payload)[:1] or [0], NEEDS_ROOT
    return read


def _exchange(a: _Arguments, rank: int, size: int) -> Read:
    read = Read()
    read.needs = NEEDS_SENDERS
    if "input" not in a:  # a tensor for each peer
        read.payload = _tensors(a["input_tensors"])
        read.to, read.of = _sizes(read.payload), _sizes(a["output_tensors"])
        return read

    def splits(rows_of: Any, tensor: torch.Tensor) -> List[int]:
        rows = tensor.size(0) if tensor.dim() else 1
        row = tensor.numel() // rows if rows else 0
        return [each * row for each in (list(rows_of) or [rows // size] * size)]
    read.payload = [a["input"]]
    read.to, read.of = splits(a["input_split_sizes"], a["input"]), splits(a["output_split_sizes"], a["output"])
    return read


class _Operator(NamedTuple):
    kind: str
    read: Callable[[_Arguments, int, int], Read]
    sizes: bool = True  # texts show the payload's sizes, which are equal on all members


_OPERATORS = {
    "allreduce_": _Operator("all_reduce", _alike), "allreduce_coalesced_": _Operator("all_reduce", _alike),
    "broadcast_": _Operator("broadcast", _rooted), "reduce_": _Operator("reduce", _rooted),
    "barrier": _Operator("barrier", _nothing), "monitored_barrier_": _Operator("monitored_barrier", _nothing),
    "allgather_": _Operator("all_gather", _lists, False), "allgather_coalesced_": _Operator("all_gather", _lists, False),
    "_allgather_base_": _Operator("all_gather_into_tensor", _alike),
    "allgather_into_tensor_coalesced_": _Operator("all_gather_into_tensor", _alike),
    "gather_": _Operator("gather", _gather, False), "gather_into_tensor_": _Operator("gather_into_tensor", _gather),
    "scatter_": _Operator("scatter", _scatter), "reduce_scatter_": _Operator("reduce_scatter", _lists),
    "_reduce_scatter_base_": _Operator("reduce_scatter_tensor", _alike),
    "reduce_scatter_tensor_coalesced_": _Operator("reduce_scatter_tensor", _alike),
    "alltoall_": _Operator("all_to_all", _exchange, False), "alltoall_base_": _Operator("all_to_all_single", _exchange, False),
    "send": _Operator("send", _alike), "recv_": _Operator("receive", _alike),
    "recv_any_source_": _Operator("receive from any", _alike),
}


def _text(operator: _Operator, reduces: str, payload: List[torch.Tensor]) -> str:
    shown = [tensor_text(tensor.dtype, list(tensor.shape) if operator.sizes else None)
             for tensor in payload[:_SHOWN_TENSORS]]
    if len(payload) > _SHOWN_TENSORS:
        shown.append(f"and {len(payload) - _SHOWN_TENSORS} more")
    return " ".join(filter(None, (operator.kind, reduces, ", ".join(shown))))


class PythonKernels:
    """Posts the operations of this process, and notes those of the watched thread on the watched group."""

    def __init__(self, handle: int, group: Callable[[str, str, int, int, int], int], watched: str,
                 before: Callable[[str, str], bool], after: Callable[[str, str], bool], error: Callable[[], Error],
                 issued: Callable[[], None]) -> None:
        """`handle`: address of the library's lines. `group`: Lines._group(). `before`(what, place): called before each
        operation on the process group named `watched`, on any thread; returns whether the operation counts for votes.
        `after`(what, place): called for an operation that counts and has been posted; returns whether it is noted.
        `error`: returns the error of this thread's last call of the library, which is raised unless `marks.audits` is
        set. `issued`: called after each posted operation that was not refused."""
        self._handle, self._group, self._watched, self._before, self._after = handle, group, watched, before, after
        self._error, self._goes_on = error, issued
        self.marks = Marks()
        self._is_on = True
        self._notes: List[str] = []
        self._numbers: Dict[Tuple[Any, ...], int] = {}
        self._from_any: Dict[Tuple[Any, int], bool] = {}
        self._kernels = Kernels({name: self._around(name, operator) for name, operator in _OPERATORS.items()},
                                self._issued)

    def _issued(self, number: Optional[int]) -> None:
        if number is not None:
            lib.lines_issued(self._handle, number)

    def _around(self, name: str, operator: _Operator) -> Callable[..., Optional[int]]:
        found = getattr(torch.ops.c10d, name, None)
        if found is None:
            return lambda *args, **kwargs: None
        names = [argument.name for argument in found.default._schema.arguments]

        def around(*args: Any, **kwargs: Any) -> Optional[int]:
            if not self._is_on:
                return None
            given = dict(zip(names, args), **kwargs)
            return self._issue(operator, given, group_of(given["process_group"]))
        return around

    def _issue(self, operator: _Operator, given: _Arguments, group: Any) -> Optional[int]:
        """Posts an operation and returns the number of its group; None: the operation is not compared, or is refused
        under audit."""
        rank = group.rank()
        read = operator.read(given, rank, group.size())
        reduces = reduction(given["reduce_op"]) if "reduce_op" in given else ""
        device = read.payload[0].device.type if read.payload else given["tensor"].device.type if "tensor" in given else "cpu"
        pair = self._pair(operator, given, rank, group)
        if pair is None:
            return None
        key = (group, device, *pair)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._group(group.group_name, device, *pair)
        if number < 0:
            return None
        place = user_place(sys._getframe(2))
        what = _text(operator, reduces, read.payload) if pair[0] < 0 and group.group_name == self._watched else ""
        counts = what and self._before(what, place)
        if pair[0] >= 0:
            read.root, read.needs = 0, NEEDS_NOBODY if operator.kind == "send" else NEEDS_ROOT
        shape = read.payload[0].shape if read.payload else ()
        code, _ = lib.lines_issue(self._handle, number, Operation(
            operator.kind, dtype_name(read.payload[0].dtype) if read.payload else None, reduces or None, place, read.root,
            read.needs, pair[0] >= 0, read.elements, shape, read.to, read.of))
        if code != 0:
            error = self._error()
            if not self.marks.audits:
                raise error
        if counts and self._after(what, place):
            self._note(f"{what}\tat {place}")
        if code != 0:
            return None
        self._goes_on()
        return number

    def _pair(self, operator: _Operator, given: _Arguments, rank: int, group: Any) -> Optional[Tuple[int, int, int]]:
        """Returns the sender, receiver and tag of a send or a receive; -1, -1, 0 for a collective. None: it is not
        known which send this receive will take, so the receive is not compared."""
        if operator.kind not in ("send", "receive", "receive from any"):
            return -1, -1, 0
        tag = given.get("tag", 0)
        if operator.kind == "receive from any":
            self._from_any[group, tag] = True
            lib.lines_take_from_any(self._handle)
            return None
        if operator.kind == "send":
            return rank, given["dst"], tag
        return None if (group, tag) in self._from_any else (given["src"], rank, tag)

    def _note(self, line: str) -> None:
        self._notes.append(line)
        if len(self._notes) > _MOST_LINES:
            high, low = lib.fingerprint_of("\n".join(line.split("\t")[0] for line in self._notes).encode())
            self._notes = [f"{len(self._notes)} collectives, {high:x} {low:x}"]

    def notes(self) -> List[str]:
        """Returns the notes since clear(), one per line; the place follows a tab."""
        return self._notes

    def clear(self) -> None:
        self._notes = []

    def runs_graph(self, code: types.CodeType, collectives: List[Tuple[str, str]]) -> None:
        """Does nothing: these kernels place a graph's collectives at the line of the compiled function."""

    def forget(self) -> None:
        """Stops posting; for a copy of the process after a fork."""
        self._is_on = False

    def end(self) -> None:
        """Stops posting; for the end of Python."""
        self._is_on = False

    def remove(self) -> None:
        self._kernels.remove()
