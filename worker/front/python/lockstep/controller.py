"""A controller: one process that has the workers of a job run saved programs, on tensors that stay on the workers.

    mpirun -n 4 lockstep worker --address-file workers.address

    c = lockstep.Controller("workers.address")
    step = c.load("step.lsp")                  # written by frame.save() or `lockstep trace --save`
    x = c.put([rows_of_worker_0, rows_of_worker_1, ...])     # one per worker, sizes may differ
    for i in range(1000):
        out = step(x=x, rate=0.1)              # does not wait
    out["loss"].fetch()                        # waits
    c.finish()
"""

from __future__ import annotations

import collections
import math
import numbers
import os
import re
import signal
import struct
import threading
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._library import lib, native
from .errors import check
from .nesting import end_of, kind_of, members_of
from .observation import dtype_word
from .turns import Turns

_TENSOR, _INT, _FLOAT, _BOOL = range(4)
#: The dtypes by lockstep's number: name, numpy's typestr, memoryview's format.
_DTYPES = (("bool", "|b1", "?"), ("u8", "|u1", "B"), ("i8", "|i1", "b"), ("i16", "<i2", "h"), ("i32", "<i4", "i"),
           ("i64", "<i8", "q"), ("f16", "<f2", "e"), ("bf16", "", ""), ("f32", "<f4", "f"), ("f64", "<f8", "d"))
_BY_TYPESTR = {typestr: number for number, (_, typestr, _) in enumerate(_DTYPES) if typestr}
_BY_FORMAT = {code: number for number, (_, _, code) in enumerate(_DTYPES) if code}
_BY_FORMAT["l"] = _BY_FORMAT["q"]  # a C long has 64 bits on this platform
_BY_TORCH = {"bool": 0, "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "bfloat16": 7,
             "float32": 8, "float64": 9}


#: A tensor of this process, as the library takes it (dtype, sizes, elements or their address), and the object that
#: keeps the elements alive.
_Local = Tuple[Tuple[int, Tuple[int, ...], Union[bytes, int]], Any]


def _local(value: Any, what: str) -> _Local:
    shape: Any
    if isinstance(value, (bool, int, float)):
        number, code = (0, "?") if isinstance(value, bool) else (5, "q") if isinstance(value, int) else (9, "d")
        shape, address, owner = (), 0, struct.pack(code, value)
    elif hasattr(value, "data_ptr"):  # a torch tensor
        if str(value.device) != "cpu":
            raise TypeError(f"{what} is on {value.device}; put tensors of the host: {what}.cpu()")
        owner = value.detach().contiguous()
        number, shape, address = _BY_TORCH.get(dtype_word(value.dtype), -1), tuple(owner.shape), owner.data_ptr()
    elif getattr(value, "__array_interface__", {"strides": 0}).get("strides") is None:  # row-major
        told, owner = value.__array_interface__, value
        number, shape, address = _BY_TYPESTR.get(told["typestr"], -1), told["shape"], told["data"][0]
    else:
        try:
            view = memoryview(value)
        except TypeError:
            raise TypeError(f"{what} is of type {type(value).__name__}, which is no tensor; put numpy arrays, torch "
                            "tensors, numbers, or what has Python's buffer") from None
        number, shape, address = _BY_FORMAT.get(view.format.lstrip("<=@"), -1), view.shape, 0
        owner = view.tobytes()
    if number < 0:
        raise TypeError(f"{what} has dtype {getattr(value, 'dtype', None) or getattr(value, 'format', '?')}, which "
                        "lockstep does not have")
    return (number, tuple(shape), owner if isinstance(owner, bytes) else address), owner


class _Noted:
    """Takes the turn for a call of the library. Ctrl-C during the call is noted; the library asks for the note while it
    waits, and then ends its wait. The program's handler of the signal runs after the library has returned."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.signal: Optional[Tuple[int, Any]] = None
        self.before: Any = None

    def __enter__(self) -> _Noted:
        self.controller._turns.__enter__()
        self.controller._free_dead()
        self.controller._noted = self
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self.before = handler
                signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: Any) -> None:
        self.signal = (number, frame)

    def __exit__(self, *error: Any) -> None:
        self.controller._turns.__exit__()
        if self.before is None:
            return
        signal.signal(signal.SIGINT, self.before)
        if self.signal is not None:
            self.before(*self.signal)


class RemoteTensor:
    """A handle of a tensor whose sizes and elements are on the workers. The workers free the tensor once no handle of
    it is left."""

    def __init__(self, controller: Controller, handle: int) -> None:
        self._controller = controller
        self._handle = handle

    def __del__(self) -> None:
        # May run on any thread, so the controller frees the handle later.
        if getattr(self, "_handle", None):
            self._controller._dead.append(self._handle)

    @property
    def dtype(self) -> str:
        """"f32" and so on."""
        return _DTYPES[lib.tensors_dtype(self._handle, 0)][0]

    @property
    def label(self) -> str:
        """The label given to put(); for an output, the names of its program and of the output."""
        return str(lib.tensors_name(self._handle, 0))

    def sizes(self) -> List[Tuple[int, ...]]:
        """Returns the sizes on every worker. Waits until the tensor has been computed."""
        _, (workers, ndim), elements = self._controller._fetched(8, lib.controller_sizes, self._handle)
        flat = struct.unpack(f"={workers * ndim}q", elements)
        return [tuple(flat[w * ndim:(w + 1) * ndim]) for w in range(workers)]

    def fetch(self, worker: int = 0) -> Any:
        """Returns the tensor of one worker as a numpy array (bf16 as float32, with the same values) or, without
        numpy, as a memoryview (bf16 as 16-bit numbers with its bits). Waits until the tensor has been computed."""
        name, typestr, code = _DTYPES[lib.tensors_dtype(self._handle, 0)]
        width = {"bf16": 2}.get(name) or int(typestr[-1])
        _, shape, elements = self._controller._fetched(width, lib.controller_fetch, self._handle, worker)
        data = bytearray(elements)
        try:
            import numpy
        except ImportError:
            flat: Any = memoryview(data)
            return flat.cast(code or "H", shape) if shape and 0 not in shape else flat.cast(code or "H")
        if name == "bf16":
            wide = numpy.frombuffer(data, "<u2").astype("<u4") << 16
            return wide.view("<f4").reshape(shape)
        return numpy.frombuffer(data, typestr).reshape(shape)

    def __repr__(self) -> str:
        return f"<{self.label}: {self.dtype} on {self._controller.workers} workers>"


_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def _nested(named: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns {"layers[0].bias": b} as {"layers": [{"bias": b}]}."""
    out: Dict[Any, Any] = {}
    for name, value in named.items():
        parts: List[Any] = [int(index) if index else key for key, index in _PART.findall(name)]
        at = out
        for part in parts[:-1]:
            at = at.setdefault(part, {})
        at[parts[-1]] = value

    def lists(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value and all(isinstance(key, int) for key in value):
            return [lists(value[key]) for key in sorted(value)]
        return {key: lists(inner) for key, inner in value.items()}

    return lists(out) if out else {}


def _leaves(name: str, value: Any) -> Iterator[Tuple[str, Any]]:
    kind = kind_of(value)
    if kind is None:
        yield name, value
        return
    for key, member in members_of(value):
        yield from _leaves(name + end_of(kind, key) if name else str(key), member)


def _empty(box: Any) -> None:
    """Empties the dicts and lists in a box, and the box."""
    inner = box.values() if isinstance(box, dict) else box if isinstance(box, (list, tuple)) else ()
    for value in inner:
        _empty(value)
    if isinstance(box, (dict, list)):
        box.clear()


class Program:
    """A saved program on the workers."""

    def __init__(self, controller: Controller, handle: int) -> None:
        self._controller = controller
        self._handle = handle

    def __del__(self) -> None:
        if lib is not None and getattr(self, "_handle", None):
            lib.program_free(self._handle)

    def __call__(self, **inputs: Any) -> Dict[str, Any]:
        """Returns the outputs by name, without waiting for the run: RemoteTensors, nested in dicts and lists as their
        names say ("layers[0].bias"). Inputs: RemoteTensors, numbers, tensors of this process (which are put on all
        workers), and dicts and lists of these."""
        return self._call(inputs, list(_leaves("", inputs)), boxed=False)

    def call_boxed(self, box: Dict[str, Any]) -> Dict[str, Any]:
        """Calls the program with the inputs in `box`, and empties the box and all containers in it: the workers free
        each tensor during the run, if no other handle has it."""
        return self._call(box, list(_leaves("", box)), boxed=True)

    def _call(self, box: Dict[str, Any], leaves: List[Tuple[str, Any]], boxed: bool) -> Dict[str, Any]:
        owners: List[int] = []  # handles that are freed after this call
        try:
            values = [self._given(name, given, owners) for name, given in leaves]
            leaves.clear()
            if boxed:
                _empty(box)
            out = self._controller._made(lib.tensors_free, lib.program_call, self._handle, values)
        finally:
            for handle in owners:
                lib.tensors_free(handle)
        return _nested(self._controller._named(out))

    def _given(self, name: str, given: Any, owners: List[int]) -> Tuple[str, int, int, int, int, float]:
        """Returns the input `given` as the library takes it: name, kind, tensor, whether the tensor is moved, int or
        bool, float. Adds the tensor's handle to `owners`."""
        if isinstance(given, bool) or type(given).__name__ in ("bool_", "bool"):
            return name, _BOOL, 0, 0, int(given), 0.0
        if isinstance(given, numbers.Integral):
            return name, _INT, 0, 0, int(given), 0.0
        if isinstance(given, numbers.Real):
            return name, _FLOAT, 0, 0, 0, float(given)
        if isinstance(given, RemoteTensor):
            code, handle = lib.tensors_one(given._handle, 0)
            check(code)
        else:
            handle = self._controller._put([given], name)
        owners.append(handle)
        return name, _TENSOR, handle, 1, 0, 0.0

    def __repr__(self) -> str:
        return f"<{lib.program_text(self._handle)}>"


class Controller:
    """A controller of the workers that `lockstep worker` has started. `where`: their address file, or an address such
    as "10.0.0.1:4700", with the secret of LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE; None: the address file in the cache
    directory. `deadline`: seconds for which worker 0 may send nothing during a wait. Takes one call at a time, from any
    thread: a call made during a call of another thread raises BadInput. A failure on one worker is a failure on all,
    and is raised by the next call of the controller. As a context manager it ends the workers at the end of the block.
    If an exception leaves the block, the workers stay for the next controller."""

    def __init__(self, where: Optional[os.PathLike[str] | str] = None, deadline: float = 60.0) -> None:
        self._handle = 0
        self._noted: Optional[_Noted] = None
        self._turns = Turns("a controller")
        self._dead: Deque[int] = collections.deque()  # handles to be freed
        self._asked = lambda: self._noted is not None and self._noted.signal is not None
        with self._waiting():
            code, self._handle = native.connect(None if where is None else os.fsencode(where), deadline, self._asked)
            check(code)
        self.workers: int = lib.controller_workers(self._handle)

    def put(self, tensor: Any, label: str = "a tensor") -> RemoteTensor:
        """Puts a numpy array, a torch tensor of the host, a number, or an object with the buffer protocol on every
        worker. A list has one such item for each worker; the items' sizes may differ."""
        each = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
        if isinstance(tensor, (list, tuple)) and len(each) != self.workers:
            raise ValueError(f"{len(each)} tensors are put on {self.workers} workers; give one for each")
        return RemoteTensor(self, self._put(each, label))

    def read(self, path: os.PathLike[str] | str, names: Sequence[str]) -> Dict[str, RemoteTensor]:
        """Has each worker read tensors of a safetensors file; "{rank}" in `path` is replaced by the worker's number."""
        return self._named(self._made(lib.tensors_free, lib.controller_read, self._handle, os.fsencode(path), list(names)))

    def load(self, path: os.PathLike[str] | str) -> Program:
        """Loads a saved program, a file of frame.save() or `lockstep trace --save`, and sends it to the workers,
        once."""
        return Program(self, self._made(lib.program_free, lib.controller_load, self._handle, os.fsencode(path)))

    def take_over(self) -> List[RemoteTensor]:
        """Returns the tensors, with labels, that the workers held when this controller connected. Works once. The
        workers free a tensor once its handle is gone."""
        return list(self._tensors(self._made(lib.tensors_free, lib.controller_take_over, self._handle)))

    def settle(self) -> None:
        """Waits until the workers have carried out all commands."""
        with self._waiting():
            check(lib.controller_settle(self._handle))

    def finish(self) -> None:
        """Ends the workers once they have carried out all commands."""
        with self._waiting():
            check(lib.controller_finish(self._handle))

    def close(self) -> None:
        """Leaves the workers, with their tensors, to the next controller. Handles and programs of this controller
        become unusable."""
        with self._turns:
            handle, self._handle = self._handle, 0
            if lib is not None:
                self._free_dead()
                lib.controller_free(handle)

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            self.finish()
        self.close()

    def __del__(self) -> None:
        if lib is not None and hasattr(self, "_turns"):
            self.close()

    def __repr__(self) -> str:
        return f"<controller of {self.workers} workers>"

    def _put(self, each: Sequence[Any], label: str) -> int:
        locals_ = [_local(value, label) for value in each]
        return self._made(lib.tensors_free, lib.controller_put, self._handle, [array for array, _ in locals_], label)

    def _fetched(self, width: int, ask: Callable[..., Tuple[int, int]], *what: Any) -> Tuple[int, Tuple[int, ...], bytes]:
        """Calls `ask` with this controller and `what`; returns the dtype, sizes and elements (`width` bytes each) of
        the tensor that `ask` fetches."""
        handle = self._made(lib.fetched_free, ask, self._handle, *what)
        try:
            dtype, sizes, elements = lib.fetched_array(handle)
            return dtype, sizes, native.bytes_at(elements, math.prod(sizes) * width)
        finally:
            lib.fetched_free(handle)

    def _made(self, free: Callable[[int], None], ask: Callable[..., Tuple[int, int]], *what: Any) -> int:
        """Returns the handle that `ask`(*what) makes; frees it by `free` if an error or Ctrl-C prevents the return."""
        out = 0
        try:
            with self._waiting():
                code, out = ask(*what)
                check(code)
        except BaseException:
            free(out)
            raise
        return out

    def _tensors(self, handle: int) -> Iterator[RemoteTensor]:
        try:
            for index in range(lib.tensors_count(handle)):
                code, one = lib.tensors_one(handle, index)
                check(code)
                yield RemoteTensor(self, one)
        finally:
            lib.tensors_free(handle)

    def _named(self, handle: int) -> Dict[str, RemoteTensor]:
        return {tensor.label: tensor for tensor in self._tensors(handle)}

    def _free_dead(self) -> None:
        while self._dead:
            lib.tensors_free(self._dead.popleft())

    def _waiting(self) -> _Noted:
        return _Noted(self)
