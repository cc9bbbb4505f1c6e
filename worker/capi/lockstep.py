"""lockstep for Python: all ranks of a job agree before each call of a function, or fail together.

    from mpi4py import MPI
    import lockstep

    with lockstep.Group(MPI.COMM_WORLD, deadline=60) as group:
        step = lockstep.agreed(train_step, group)        # wraps any callable
        while group.more(have_batch):
            step(batch)                                  # the ranks agree, then train_step(batch) runs

One file without dependencies, so that it can be copied beside a program. It calls the C library
liblockstep (lockstep.h has the contract), which it looks for in $LOCKSTEP_LIBRARY, beside itself, one
folder up, and where the system keeps libraries. mpi4py is needed for groups of a communicator only;
numpy arrays and torch tensors are known by their `shape` and `dtype`.

Functions marked collective are called by every rank in the same order and raise alike on all of
them; after such an error the next call works, unless it is Gone; Group.resync() helps ranks that have
made different calls. A group belongs to the thread that opened it. A rank that does not come is named
by the watchdog, which ends the process after the group's deadline with exit code 4 or 5.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import ctypes.util
import dataclasses
import functools
import itertools
import json
import numbers
import os
import pathlib
import sys
import traceback
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, TypeVar

__all__ = [
    "Agreed", "Agreement", "Decision", "Error", "Finding", "Group", "Observation", "Symbol",
    "agreed", "audited", "CODES",
]

ABI = 1
Result = TypeVar("Result")


# ---- The library -----------------------------------------------------------------------------------

_BUILD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                          ctypes.c_void_p, ctypes.c_void_p)


class _Fingerprint(ctypes.Structure):
    _fields_ = [("high", ctypes.c_uint64), ("low", ctypes.c_uint64)]


class _Config(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("consistency", ctypes.c_int32),
                ("automatic_dynamic", ctypes.c_int32), ("assume_at_least_two", ctypes.c_int32),
                ("recompile_limit", ctypes.c_int32), ("settle", ctypes.c_int32)]


class _Run(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("is_new", ctypes.c_int32),
                ("program", _Fingerprint), ("collectives_known", ctypes.c_int32),
                ("collectives", _Fingerprint), ("program_text", ctypes.c_char_p),
                ("collectives_text", ctypes.c_char_p), ("trouble", ctypes.c_char_p)]


def _candidates() -> Iterator[str]:
    given = os.environ.get("LOCKSTEP_LIBRARY")
    if given:
        yield given
        return
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here, here.parent):
        for name in ("liblockstep.so.1", "liblockstep.so"):
            if (folder / name).exists():
                yield str(folder / name)
    found = ctypes.util.find_library("lockstep")
    if found:
        yield found


# Per function: what it returns and takes. c_int results of collective functions are codes.
_P, _S, _I, _N, _T = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t,
                      ctypes.POINTER(ctypes.c_int64))
_SIGNATURES: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "abi": (_I, ()), "version": (_S, ()), "code_name": (_S, (_I,)), "exit_code": (_I, (_I,)),
    "last_error": (_P, ()), "report_code": (_I, (_P,)), "report_message": (_S, (_P,)),
    "report_text": (_S, (_P,)), "report_source": (_S, (_P,)), "report_rows": (_N, (_P,)),
    "report_ranks": (_S, (_P, _N)), "report_value": (_S, (_P, _N)),
    "group_open": (_I, (_P, ctypes.c_double, _S, _P)), "group_alone": (_I, (_P,)),
    "launched": (_I, ()), "group_rank": (_I, (_P,)), "group_size": (_I, (_P,)), "busy": (_I, (_P, ctypes.c_double)),
    "trouble": (_I, (_P, _I, _S)), "settle": (_I, (_P,)), "vote_any": (_I, (_P, _I, _P)),
    "vote_all": (_I, (_P, _I, _P)), "more": (_I, (_P, _I, _P)), "finish": (_I, (_P,)),
    "leave": (_I, (_P, _S)), "resync": (_I, (_P,)), "poke": (_I, (_P,)), "group_close": (None, (_P,)),
    "dtype_from_name": (_I, (_S,)), "observation_create": (_I, (_P,)),
    "observation_free": (None, (_P,)), "observe_tensor": (_I, (_P, _S, _I, _N, _P)),
    "observe_int": (_I, (_P, _S, _P)), "observe_float": (_I, (_P, _S, _P)),
    "observe_bool": (_I, (_P, _S, _P)), "set_sizes": (_I, (_P, _N, _T, _T)),
    "set_all": (_I, (_P, _T, _N)), "set_mark": (_I, (_P, _N, _N, _I)),
    "decision_text": (_S, (_P,)), "decision_json": (_S, (_P,)),
    "agreement_create": (_I, (_P, _S, _P, _P)), "agreement_free": (None, (_P,)),
    "fingerprint_of": (_Fingerprint, (_S, _N)), "build_failed": (None, (_P, _I, _S)),
    "build_guard": (_I, (_P, _S, _S)), "prefetch": (_I, (_P, _S, _P)),
    "agree": (_I, (_P, _S, _P, _BUILD, _P, _P, _P, _P)), "audit": (_I, (_P, _S, _P, _P, _P)),
    "finding": (_P, (_P,)), "audit_summary": (_S, (_P,)),
}


def _load() -> Any:
    """The functions of liblockstep, without their prefix."""
    tried: List[str] = []
    for path in _candidates():
        try:
            # Global, so that the plug-ins of an MPI library that comes with it find its symbols.
            loaded = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError as error:
            tried.append(f"{path} ({error})")
    else:
        raise ImportError("liblockstep was not found; set LOCKSTEP_LIBRARY to its path"
                          + (" [tried: " + "; ".join(tried) + "]" if tried else ""))
    functions = types.SimpleNamespace()
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, "lockstep_" + name)
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    if functions.abi() != ABI:
        raise ImportError(f"lockstep.py is for interface {ABI}, the library {path} has "
                          f"{functions.abi()}; use the two of one version")
    return functions


_lib = _load()
#: Names of all codes, by number; 0 is "OK".
_NO_CODE = _lib.code_name(-1)
CODES: Tuple[str, ...] = tuple(name.decode() for name in itertools.takewhile(
    lambda name: name != _NO_CODE, map(_lib.code_name, itertools.count())))
_NUMBERS = {name: number for number, name in enumerate(CODES)}


# ---- Errors ----------------------------------------------------------------------------------------

class Finding(NamedTuple):
    """What an audit found, or what an error says."""

    code: str
    message: str
    source: str
    #: One row per distinct value: ranks as ranges ("0-2,7") and the value.
    ranks: Tuple[Tuple[str, str], ...]
    #: All of it in one line.
    text: str


def _finding(report: Optional[int]) -> Finding:
    rows = tuple((_lib.report_ranks(report, i).decode(errors="replace"),
                  _lib.report_value(report, i).decode(errors="replace"))
                 for i in range(_lib.report_rows(report)))
    return Finding(CODES[_lib.report_code(report)],
                   _lib.report_message(report).decode(errors="replace"),
                   _lib.report_source(report).decode(errors="replace"), rows,
                   _lib.report_text(report).decode(errors="replace"))


class Error(Exception):
    """A call that failed; on all ranks alike if it was collective. There is a subclass for every
    code: FRAME_MISMATCH is lockstep.FrameMismatch, and so on."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.code = finding.code
        self.message = finding.message
        #: The input it is about ("tokens.size(0)"), or "".
        self.source = finding.source
        #: The table by ranks: (("0-2", "8"), ("3", "9")).
        self.ranks = finding.ranks
        #: What the process should exit with.
        self.exit_code: int = _lib.exit_code(_NUMBERS[finding.code])


#: Code name to exception class.
ERRORS: Dict[str, type] = {}
for _name in CODES[1:]:
    _class = type("".join(part.capitalize() for part in _name.split("_")), (Error,),
                  {"__doc__": f"The error {_name}.", "__module__": __name__})
    ERRORS[_name] = globals()[_class.__name__] = _class
    __all__.append(_class.__name__)


def _check(code: int) -> None:
    if code != 0:
        finding = _finding(_lib.last_error())
        raise ERRORS[finding.code](finding)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# ---- Groups ----------------------------------------------------------------------------------------

class Group:
    """The ranks that agree. `comm` is an mpi4py communicator, duplicated and otherwise left alone;
    None: the processes that meet at LOCKSTEP_RENDEZVOUS, else all that a launcher (mpirun, srun) has
    started together, else this process. `alone`: this process, whoever has started it.
    Collective. As a context manager it finishes at the end, collectively;
    an exception that leaves the block is told to the other ranks, whose next call raises Gone."""

    def __init__(self, comm: Any = None, deadline: float = 60.0,
                 report_folder: Optional[str] = None, *, alone: bool = False) -> None:
        if alone and comm is not None:
            raise ValueError("a group of this process alone has no communicator; leave one of the two out")
        self._handle = ctypes.c_void_p()
        self._process = os.getpid()
        self._agreements: List[Agreement] = []
        self._promised = False  # something has been prefetched
        together = os.environ.get("LOCKSTEP_RENDEZVOUS") or _lib.launched() > 1
        if alone or (comm is None and not together):
            _check(_lib.group_alone(ctypes.byref(self._handle)))
        else:
            address = None
            if comm is not None:
                from mpi4py import MPI
                address = MPI._addressof(comm)
            folder = None if report_folder is None else os.fsencode(report_folder)
            _check(_lib.group_open(address, deadline, folder, ctypes.byref(self._handle)))
        self.rank: int = _lib.group_rank(self._handle)
        self.size: int = _lib.group_size(self._handle)
        # Before mpi4py finalises MPI. A copy of this process after a fork has nothing to say.
        atexit.register(self._at_exit)

    def any(self, mine: object) -> bool:
        """Collective: whether `mine` is true on any rank."""
        return self._vote(_lib.vote_any, mine)

    def all(self, mine: object) -> bool:
        """Collective: whether `mine` is true on all ranks."""
        return self._vote(_lib.vote_all, mine)

    def more(self, have: object) -> bool:
        """Collective, at the head of a loop over uneven data: False once no rank has any left."""
        return self._vote(_lib.more, have)

    def settle(self) -> None:
        """Collective: raises on all ranks if one is in trouble; before a checkpoint."""
        _check(_lib.settle(self._handle))

    def trouble(self, text: str, code: str = "RUNTIME_ASSERT") -> None:
        """This rank has failed; the next collective call raises `code` on all ranks, but for one whose
        prefetched vote is out already."""
        _check(_lib.trouble(self._handle, _NUMBERS.get(code, 0), text.encode()))

    def busy(self, seconds: float) -> None:
        """This process compiles: it does not count as stuck for that long from now."""
        _check(_lib.busy(self._handle, seconds))

    def resync(self, error: Optional[BaseException] = None) -> None:
        """Collective, after an error that all ranks have: ranks that made different calls are in step
        again. Versions stay, prefetches are dropped. `error`: what this rank alone has failed with;
        the others get it in whatever call they are in, and this rank waits for them to come here.
        Raises FrameMismatch where ranks are elsewhere and none has failed; it may be tried again."""
        if error is not None and not isinstance(error, Error):
            self.trouble(_said(error))
        _check(_lib.resync(self._handle))

    def poke(self) -> None:
        """Moves the vote of a prefetched call; for now and then while the program works. Never waits."""
        _check(_lib.poke(self._handle))

    def finish(self) -> None:
        """Collective: the end of the job on all ranks."""
        _check(_lib.finish(self._handle))

    def leave(self, why: str) -> None:
        """This rank ends without the others, whose next call raises Gone. Where they may be running a
        prefetched call the watchdog ends the job at once, with this reason and exit code 3."""
        sys.stdout.flush()
        _check(_lib.leave(self._handle, why.encode()))

    def close(self) -> None:
        """Frees the group; one that is neither finished nor left leaves."""
        if self._handle and self._process == os.getpid():
            for agreement in self._agreements:
                agreement._free()
            _lib.group_close(self._handle)
        self._handle = ctypes.c_void_p()
        atexit.unregister(self._at_exit)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is None:
                self.finish()
            elif not isinstance(error, Error):
                if self._promised:  # leaving may end the process
                    traceback.print_exception(kind, error, trace)
                self.leave(_said(error))
        finally:
            self.close()

    def _vote(self, function: Callable[..., int], mine: object) -> bool:
        result = ctypes.c_int()
        _check(function(self._handle, 1 if mine else 0, ctypes.byref(result)))
        return bool(result.value)

    def _at_exit(self) -> None:
        error = getattr(sys, "last_value", None)
        if self._handle and self._process == os.getpid() and error is not None:
            _lib.leave(self._handle, _said(error).encode())
        self.close()


# ---- Observations ----------------------------------------------------------------------------------

_DTYPES = {"bool": "bool", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32",
           "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_MARKS = {"dynamic": 1, "maybe_dynamic": 2, "unbacked": 3, "static": 4, "uniform": 5}
_TENSOR, _INT, _FLOAT, _BOOL = range(4)

#: name, kind, number of the dtype, number of dims: what a version of a function depends on.
_Source = Tuple[str, int, int, int]


def _dtype_number(name: str, dtype: Any) -> int:
    word = str(getattr(dtype, "name", dtype)).replace("torch.", "")
    number = _lib.dtype_from_name(_DTYPES.get(word, word).encode())
    if number < 0:
        raise TypeError(f"{name} has dtype {dtype}, which lockstep does not know; leave the input out "
                        "or convert it")
    return number


def _is_scalar(value: Any) -> bool:
    # numpy's numbers are Numbers, its truth value is none.
    return isinstance(value, (int, float, numbers.Real)) or type(value).__name__ == "bool_"


def _members(value: Any) -> Optional[Iterator[Tuple[str, Any]]]:
    """What a nested value holds, each with the end of its name; None: it is not nested."""
    if isinstance(value, Mapping):
        return ((f".{key}", value[key]) for key in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ((f".{field}", getattr(value, field)) for field in value._fields)
    if isinstance(value, (list, tuple)):
        return ((f"[{i}]", item) for i, item in enumerate(value))
    return None


def _walk(name: str, value: Any, sources: List[_Source], values: List[int],
          strides: Dict[int, List[int]]) -> None:
    members = _members(value)
    if members is not None:
        for end, member in members:
            _walk(name + end if name else end.lstrip("."), member, sources, values, strides)
        return
    if isinstance(value, str) or value is None:
        # Not a size; that it is there, and what it is, is part of the name.
        sources.append((f"{name}={value!r}"[:200], _FLOAT, 0, 0))
    elif _is_scalar(value):
        plain = value.item() if hasattr(value, "item") else value
        kind = _BOOL if isinstance(plain, bool) else _INT if isinstance(plain, int) else _FLOAT
        if kind == _INT and not -2**63 <= plain < 2**63:
            raise TypeError(f"{name} is {plain}, which does not fit into 64 bits")
        sources.append((name, kind, 0, 0))
        if kind != _FLOAT:
            values.append(int(plain))
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        sizes = [int(size) for size in value.shape]
        number = _dtype_number(name, value.dtype)
        own = _strides(value)
        if own is not None and own != _contiguous(sizes):
            strides[len(sources)] = own
        sources.append((name, _TENSOR, number, len(sizes)))
        values.extend(sizes)
    else:
        raise TypeError(f"{name} is of type {type(value).__name__}, which lockstep cannot observe; pass "
                        "arrays, numbers, or lists, dicts and dataclasses of them, or leave it out")


def _strides(value: Any) -> Optional[List[int]]:
    """In elements; numpy gives bytes in an attribute, torch elements by a method."""
    found = getattr(value, "strides", None)
    if found is not None and not callable(found):
        return [int(s) // max(int(value.itemsize), 1) for s in found]
    method = getattr(value, "stride", None)
    return [int(s) for s in method()] if callable(method) else None


def _contiguous(sizes: List[int]) -> List[int]:
    out: List[int] = []
    step = 1
    for size in reversed(sizes):
        out.append(step)
        step *= max(size, 1)
    return out[::-1]


#: An agreement's declared observations, so that a call only sets values.
_Declared = Dict[Tuple[_Source, ...], ctypes.c_void_p]
_MOST_DECLARED = 256


def _free_declared(declared: _Declared) -> None:
    for handle in declared.values():
        _lib.observation_free(handle)
    declared.clear()


class Observation:
    """What this rank sees of the inputs of one call: `Observation(batch=batch, lr=0.1)`. Nested
    values become sources with names like `batch.tokens[0]`: arrays with their sizes, ints and bools
    with their values, floats without. None and strings count as part of the name. `marks` maps a
    name to {dim: "dynamic" | "maybe_dynamic" | "unbacked" | "static" | "uniform"}; a
    size marked uniform must be the same on all ranks."""

    def __init__(self, marks: Optional[Mapping[str, Mapping[int, str]]] = None,
                 **inputs: Any) -> None:
        sources: List[_Source] = []
        self.values: List[int] = []
        self._strides: Dict[int, List[int]] = {}
        for name in inputs:
            _walk(name, inputs[name], sources, self.values, self._strides)
        self.sources = tuple(sources)
        self._marks = self._numbered(marks or {})

    def names(self) -> List[str]:
        """Of the sources, in the order in which they were given."""
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

    def _handle(self, declared: _Declared) -> ctypes.c_void_p:
        """The library's observation with these values; until the next one of the same sources."""
        handle = declared.get(self.sources)
        if handle is None:
            if len(declared) >= _MOST_DECLARED:
                _free_declared(declared)
            handle = declared[self.sources] = self._declare()
        count = len(self.values)
        _check(_lib.set_all(handle, (ctypes.c_int64 * count)(*self.values), count))
        at = 0
        for i, (_, kind, _, ndim) in enumerate(self.sources):
            if i in self._strides:
                sizes = (ctypes.c_int64 * ndim)(*self.values[at:at + ndim])
                _check(_lib.set_sizes(handle, i, sizes, (ctypes.c_int64 * ndim)(*self._strides[i])))
            at += ndim if kind == _TENSOR else kind != _FLOAT
        for source, dim, mark in self._marks:
            _check(_lib.set_mark(handle, source, dim, mark))
        return handle

    def _unmark(self, handle: ctypes.c_void_p) -> None:
        for source, dim, _ in self._marks:
            _check(_lib.set_mark(handle, source, dim, 0))

    def _declare(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        _check(_lib.observation_create(ctypes.byref(handle)))
        try:
            for name, kind, dtype, ndim in self.sources:
                text = name.encode()
                if kind == _TENSOR:
                    _check(_lib.observe_tensor(handle, text, dtype, ndim, None))
                else:
                    declare = (None, _lib.observe_int, _lib.observe_float, _lib.observe_bool)[kind]
                    _check(declare(handle, text, None))
        except Error:
            _lib.observation_free(handle)
            raise
        return handle


# ---- Agreement -------------------------------------------------------------------------------------

class Symbol(NamedTuple):
    """A size or int that differs between calls or ranks."""

    name: str    # "s0"
    source: str  # "batch.tokens.size(0)"
    min: Optional[int]
    hint: int    # an example, the same on all ranks


class Decision:
    """What a version of a function is made for; the same on all ranks."""

    def __init__(self, handle: int, built: Optional[int] = None) -> None:
        self._built = built  # while the version is built
        self.text: str = _lib.decision_text(handle).decode(errors="replace")
        whole = json.loads(_lib.decision_json(handle))
        #: Per source: a list of sizes, an int or a bool; a symbol is its name.
        self.inputs: Dict[str, Any] = whole["decisions"]
        self.symbols: Dict[str, Symbol] = {
            name: Symbol(name, s["source"], s["min"], s["hint"])
            for name, s in whole["symbols"].items()}

    def size(self, source: str, dim: int) -> Any:
        """A number, or the Symbol."""
        found = self.inputs[source][dim]
        return self.symbols[found] if isinstance(found, str) else found

    def guard(self, condition: str, where: Optional[str] = None) -> None:
        """While the version is built: it relies on this, such as "x.size(0) % 8 == 0" or
        "x.size(0) * 2 <= Max(y.size(1), n)" (+ - * // % Mod Min Max; one of == != < <= > >=). False on
        some rank is BranchDivergence on all; from then on the version fits only inputs for which it is
        true. All ranks give the same ones. `where`: "kernel.py:41" (default: the caller's line).
        Raises BadInput for a text that cannot be read; the build has then failed in any case."""
        if where is None:
            caller = sys._getframe(1)
            where = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
        _check(_lib.build_guard(self._built, condition.encode(), where.encode()))

    def __str__(self) -> str:
        return self.text


class Agreed(NamedTuple):
    """What to run now."""

    entry: Optional[int]          # the version; None: without one, the limit is reached
    is_new: bool                  # built in this call
    decision: Optional[Decision]  # of the version


_CONSISTENCY = {"same_graph": 0, "same_collectives": 1, "shared_sizes": 2}
#: Builds version `entry` for a decision; returns what stands for the program (text, bytes or None: only
#: decisions are compared). What it relies on beyond the decision goes to decision.guard(). What it
#: raises becomes the error of all ranks.
Build = Callable[[int, Decision], Any]


def _program_bytes(program: Any) -> bytes:
    return program if isinstance(program, bytes) else str(program).encode()


class Agreement:
    """Versions of functions on which the ranks of a group agree. Collective. `consistency` is
    "same_graph", "same_collectives" or "shared_sizes"; `recompile_limit` is 1 to 64. `settle`: one
    list of inputs has at most half as many versions; the last takes all sizes and ints as symbols,
    but for sizes marked static."""

    def __init__(self, group: Group, name: str = "world", consistency: str = "same_graph",
                 automatic_dynamic: bool = True, assume_at_least_two: bool = True,
                 recompile_limit: int = 8, settle: bool = True) -> None:
        self.group = group
        self._handle = ctypes.c_void_p()
        self._decisions: Dict[Tuple[str, int], Decision] = {}
        self._declared: _Declared = {}
        config = _Config(ctypes.sizeof(_Config), _CONSISTENCY.get(consistency, -1),
                         automatic_dynamic, assume_at_least_two, recompile_limit, settle)
        _check(_lib.agreement_create(group._handle, name.encode(), ctypes.byref(config),
                                     ctypes.byref(self._handle)))
        group._agreements.append(self)

    def agree(self, frame: str, observation: Optional[Observation],
              build: Optional[Build] = None) -> Agreed:
        """Collective, before each call of `frame`: which version runs. `build` makes the next one.
        `observation` is None on a rank that cannot make the call, and brings that to all."""
        raised: List[BaseException] = []

        def build_c(_context: Any, entry: int, handle: int, program: int, built: int) -> int:
            try:
                decision = Decision(handle, built)
                try:
                    made = None if build is None else build(entry, decision)
                finally:
                    decision._built = None
                if made is not None:
                    text = _program_bytes(made)
                    mark = _lib.fingerprint_of(text, len(text))
                    ctypes.cast(program, ctypes.POINTER(_Fingerprint))[0] = mark
                return 0
            except BaseException as error:  # noqa: B902 - every rank has to hear of it
                raised.append(error)
                _lib.build_failed(built, _NUMBERS["COMPILE_ERROR"], _said(error).encode())
                return 1

        entry, is_new, decision = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        handle = None if observation is None else self._observed(observation, raised)
        try:
            _check(_lib.agree(self._handle, frame.encode(), handle, _BUILD(build_c), None,
                              ctypes.byref(entry), ctypes.byref(is_new), ctypes.byref(decision)))
        except Error as error:
            raise error from (raised[0] if raised else None)
        finally:
            if observation is not None and handle is not None:
                observation._unmark(handle)
        if entry.value < 0:
            return Agreed(None, False, None)
        known = self._decisions.get((frame, entry.value))
        if known is None:
            known = self._decisions[frame, entry.value] = Decision(decision.value)
        return Agreed(entry.value, bool(is_new.value), known)

    def prefetch(self, frame: str, observation: Observation) -> None:
        """Commits to a call of `frame` with these inputs, after those already committed to, so that its
        vote is under way while the program works (Group.poke). On every rank or on none. Does not wait.
        The call must have the same sizes, ints, bools and marks: else BadInput with both values, on all
        ranks where a version has to be built; where the others run theirs meanwhile, the watchdog ends
        the job with it and exit code 2."""
        self.group._promised = True
        handle = self._observed(observation, [])
        if handle is None:
            return  # the call says so, on all ranks
        try:
            _check(_lib.prefetch(self._handle, frame.encode(), handle))
        finally:
            observation._unmark(handle)

    def audit(self, frame: str, observation: Optional[Observation], program: Any,
              collectives: Optional[List[str]] = None, is_new: bool = False, program_text: str = "",
              trouble: Optional[str] = None) -> Tuple[int, Optional[Finding]]:
        """Collective, before each call of `frame`, in place of agree(): compares what the ranks are
        about to run and changes nothing. `program`: text or bytes that stand for it. `collectives`:
        their list in order, [] for none, None for not known. Returns how often the finding has been
        made by now (1: show it; 0: there is none) and the finding. Raises, on all ranks and before
        anything runs, where collectives would not match."""
        text, calls = _program_bytes(program), "\n".join(collectives or []).encode()
        run = _Run(ctypes.sizeof(_Run), is_new, _lib.fingerprint_of(text, len(text)),
                   0 if collectives is None else 2 if collectives else 1,
                   _lib.fingerprint_of(calls, len(calls)), program_text.encode(), calls,
                   None if trouble is None else trouble.encode())
        times = ctypes.c_uint64()
        handle = None if observation is None else self._observed(observation, [])
        _check(_lib.audit(self._handle, frame.encode(), handle, ctypes.byref(run),
                          ctypes.byref(times)))
        report = _lib.finding(self._handle)
        return times.value, _finding(report) if report else None

    def summary(self) -> str:
        """Of the audit, for the end of the job."""
        return _lib.audit_summary(self._handle).decode(errors="replace")

    def _observed(self, observation: Observation,
                  raised: List[BaseException]) -> Optional[ctypes.c_void_p]:
        """A rank whose inputs cannot be declared still takes part, and brings that."""
        try:
            return observation._handle(self._declared)
        except Error as error:
            raised.append(error)
            self.group.trouble(error.message, "BAD_INPUT")
            return None

    def _free(self) -> None:
        _free_declared(self._declared)
        _lib.agreement_free(self._handle)
        self._handle = ctypes.c_void_p()


# ---- Wrappers for the functions of a training loop -------------------------------------------------

def _inputs_of(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Mapping[str, Any],
               observe: Optional[Callable[..., Mapping[str, Any]]]) -> Mapping[str, Any]:
    if observe is not None:
        return observe(*args, **kwargs)
    code = getattr(function, "__code__", None)
    names = list(code.co_varnames[:code.co_argcount]) if code is not None else []
    if getattr(function, "__self__", None) is not None:
        names = names[1:]
    named = {names[i] if i < len(names) else f"args[{i}]": value for i, value in enumerate(args)}
    return {**named, **kwargs}


def agreed(function: Callable[..., Result], group: Group, *, name: Optional[str] = None,
           build: Optional[Build] = None, agreement: Optional[Agreement] = None,
           observe: Optional[Callable[..., Mapping[str, Any]]] = None,
           marks: Optional[Mapping[str, Mapping[int, str]]] = None) -> Callable[..., Result]:
    """Wraps any callable of a training loop, so that all ranks agree before each call: on its name,
    on what its inputs are, and on the version of it that runs. Making the wrapper is collective.

    `observe` maps the arguments to the inputs that count (default: all, by their names). `build`
    makes version `entry` for a decision and returns the callable that runs in place of `function`;
    it may carry `program_text`, which is compared between ranks. Without it `function` itself runs.
    `wrapper.last` is the last Agreed; `wrapper.prefetch(*args)` commits to a call with these arguments
    (Agreement.prefetch). An exception of the function is told to the other ranks at their next call."""
    frame = name or getattr(function, "__qualname__", type(function).__name__)
    versions: Dict[int, Callable[..., Result]] = {}
    own = agreement or Agreement(group, f"agreed {frame}")

    def make(entry: int, decision: Decision) -> Any:
        if build is None:
            return None
        versions[entry] = build(entry, decision)
        return getattr(versions[entry], "program_text", None)

    def observed(*args: Any, **kwargs: Any) -> Observation:
        with _told(group, "BAD_INPUT"):
            return Observation(marks, **_inputs_of(function, args, kwargs, observe))

    def prefetch(*args: Any, **kwargs: Any) -> None:
        try:
            observation = observed(*args, **kwargs)
        except Exception:
            return  # the call says so, on all ranks
        own.prefetch(frame, observation)

    @functools.wraps(function, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Result:
        try:
            observation = observed(*args, **kwargs)
        except Exception:
            # The other ranks are on their way into the call: this one takes part, with its trouble.
            own.agree(frame, None, make)
            raise
        wrapper.last = own.agree(frame, observation, make)  # type: ignore[attr-defined]
        entry = wrapper.last.entry  # type: ignore[attr-defined]
        run = versions.get(entry, function) if entry is not None else function
        with _told(group, "RUNTIME_ASSERT"):
            return run(*args, **kwargs)

    wrapper.last = None  # type: ignore[attr-defined]
    wrapper.prefetch = prefetch  # type: ignore[attr-defined]
    wrapper.agreement = own  # type: ignore[attr-defined]
    return wrapper


def audited(function: Callable[..., Result], group: Group, program: Callable[..., Any], *,
            name: Optional[str] = None, agreement: Optional[Agreement] = None,
            collectives: Optional[Callable[..., Optional[List[str]]]] = None,
            observe: Optional[Callable[..., Mapping[str, Any]]] = None,
            report: Optional[Callable[[Finding], None]] = None) -> Callable[..., Result]:
    """Wraps a callable that has a compiler of its own: before each call the ranks compare what they
    are about to run and change nothing. `program(*args)` gives what stands for this rank's program
    (text or bytes), `collectives(*args)` the list of its collectives (default: not known). Each new
    finding goes to `report` (default: one line on stderr, from rank 0). Raises on all ranks before
    collectives that would not match."""
    frame = name or getattr(function, "__qualname__", type(function).__name__)
    own = agreement or Agreement(group, f"audited {frame}")
    seen: set = set()

    def to_stderr(finding: Finding) -> None:
        if group.rank == 0:
            print("lockstep audit:", finding.text, file=sys.stderr)

    @functools.wraps(function, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Result:
        try:
            observation = Observation(None, **_inputs_of(function, args, kwargs, observe))
            mine = _program_bytes(program(*args, **kwargs))
            calls = None if collectives is None else collectives(*args, **kwargs)
        except Exception as error:
            own.audit(frame, None, "", trouble=_said(error))
            raise
        times, finding = own.audit(frame, observation, mine, calls, is_new=mine not in seen)
        seen.add(mine)
        if finding is not None and times == 1:
            (report or to_stderr)(finding)
        with _told(group, "RUNTIME_ASSERT"):
            return function(*args, **kwargs)

    wrapper.agreement = own  # type: ignore[attr-defined]
    return wrapper


@contextlib.contextmanager
def _told(group: Group, code: str) -> Iterator[None]:
    """An exception that leaves the block is brought to the other ranks at the next call."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Error):
            group.trouble(_said(error), code)
        raise
