"""liblockstep, found and loaded: its functions, structs and codes (lockstep.h has the contract)."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import os
import pathlib
import types
from typing import Any, Dict, Iterator, List, Tuple

#: Of the interface that this package calls.
ABI = 1

BUILD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                          ctypes.c_void_p, ctypes.c_void_p)


class Fingerprint(ctypes.Structure):
    _fields_ = [("high", ctypes.c_uint64), ("low", ctypes.c_uint64)]


class Config(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("consistency", ctypes.c_int32),
                ("automatic_dynamic", ctypes.c_int32), ("assume_at_least_two", ctypes.c_int32),
                ("recompile_limit", ctypes.c_int32), ("settle", ctypes.c_int32)]


class Run(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("is_new", ctypes.c_int32),
                ("program", Fingerprint), ("collectives_known", ctypes.c_int32),
                ("collectives", Fingerprint), ("program_text", ctypes.c_char_p),
                ("collectives_text", ctypes.c_char_p), ("trouble", ctypes.c_char_p)]


#: Asks whether a wait of a controller is to end.
INTERRUPTED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("ndim", ctypes.c_uint32), ("sizes", ctypes.POINTER(ctypes.c_int64)),
                ("elements", ctypes.c_void_p)]


class Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("tensor", ctypes.c_void_p),
                ("moved", ctypes.c_int), ("integer", ctypes.c_int64), ("real", ctypes.c_double)]


def _candidates() -> Iterator[str]:
    given = os.environ.get("LOCKSTEP_LIBRARY")
    if given:
        yield given
        return
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here, here.parent, here.parent.parent):
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
    "leave": (_I, (_P, _S)), "done": (_I, (_P,)), "ends_at_loss": (_I, (_P, _I)), "note": (_I, (_P, _S)),
    "issues": (_I, (_P, _S)), "stalls": (_I, (_P,)), "resync": (_I, (_P,)), "poke": (_I, (_P,)),
    "group_close": (None, (_P,)),
    "dtype_from_name": (_I, (_S,)), "observation_create": (_I, (_P,)),
    "observation_free": (None, (_P,)), "observe_tensor": (_I, (_P, _S, _I, _N, _P)),
    "observe_int": (_I, (_P, _S, _P)), "observe_float": (_I, (_P, _S, _P)),
    "observe_bool": (_I, (_P, _S, _P)), "set_sizes": (_I, (_P, _N, _T, _T)),
    "set_all": (_I, (_P, _T, _N)), "set_mark": (_I, (_P, _N, _N, _I)),
    "observe_field": (_I, (_P, _S, _I, _I, _P)), "set_field_bool": (_I, (_P, _N, _I)),
    "set_field_int": (_I, (_P, _N, ctypes.c_int64)),
    "set_field_bytes": (_I, (_P, _N, _S, _N)), "decision_fields": (_N, (_P,)),
    "decision_field_name": (_S, (_P, _N)), "decision_field_type": (_I, (_P, _N)),
    "decision_field_join": (_I, (_P, _N)), "decision_field_values": (_N, (_P, _N)),
    "decision_field_int": (_I, (_P, _N, _N, _P)),
    "decision_field_bytes": (_P, (_P, _N, _N, _P)),
    "decision_symbol": (_I, (_P, _N, _P, _P, _P)), "decision_text": (_S, (_P,)), "decision_json": (_S, (_P,)),
    "agreement_create": (_I, (_P, _S, _P, _P)), "agreement_free": (None, (_P,)),
    "fingerprint_of": (Fingerprint, (_S, _N)), "build_failed": (None, (_P, _I, _S)),
    "build_guard": (_I, (_P, _S, _S)), "build_uniform": (_I, (_P, _S, _S, _S)),
    "build_kept": (_I, (_P, Fingerprint, _P, _P)),
    "build_share": (_I, (_P, Fingerprint, _S, _N, _P, _P)), "prefetch": (_I, (_P, _S, _P)),
    "agree_tested": (_I, (_P, _S, _P, _P, BUILD, _P, _P, _P, _P)), "audit": (_I, (_P, _S, _P, _P, _P)),
    "finding": (_P, (_P,)), "audit_summary": (_S, (_P,)),
    "controller_connect": (_I, (_S, ctypes.c_double, INTERRUPTED, _P, _P)), "controller_workers": (_I, (_P,)),
    "controller_finish": (_I, (_P,)), "controller_settle": (_I, (_P,)), "controller_free": (None, (_P,)),
    "controller_put": (_I, (_P, ctypes.POINTER(Array), _N, _S, _P)), "controller_take_over": (_I, (_P, _P)),
    "controller_read": (_I, (_P, _S, _P, _N, _P)), "controller_fetch": (_I, (_P, _P, _I, _P)),
    "controller_sizes": (_I, (_P, _P, _P)), "controller_load": (_I, (_P, _S, _P)),
    "tensors_count": (_N, (_P,)), "tensors_name": (_S, (_P, _N)), "tensors_dtype": (_I, (_P, _N)),
    "tensors_one": (_I, (_P, _N, _P)), "tensors_free": (None, (_P,)), "fetched_array": (Array, (_P,)),
    "fetched_free": (None, (_P,)), "program_text": (_S, (_P,)), "program_free": (None, (_P,)),
    "program_call": (_I, (_P, ctypes.POINTER(Value), _N, _P)),
    "lines_open": (_I, (_I, _P)), "lines_place": (_S, (_P,)), "lines_join": (_I, (_P, _P, _N, _P)),
    "lines_head": (_I, (_P, _P)), "lines_meet": (_I, (_P, _P, _N, _S, _S, ctypes.c_double)), "lines_leave": (None, (_P,)),
    "lines_group": (_I, (_P, Fingerprint, _P, _N, _S, _P)), "lines_issue": (_I, (_P, _I, _P, _P)),
    "lines_apart": (ctypes.c_uint64, (_P,)), "lines_apart_text": (_S, (_P, ctypes.c_uint64)), "lines_tell": (_I, (_P, Fingerprint, _P)), "lines_told": (_I, (_P, Fingerprint, ctypes.c_int32, ctypes.c_uint64, _P)),
    "lines_issued": (None, (_P, _I)), "wait_begin": (_I, (_P, _I, ctypes.c_uint64, _P)),
    "lines_in_flight": (_I, (_P, _I, ctypes.c_uint64)), "lines_arrived": (_I, (_P, _I, ctypes.c_uint64)),
    "wait_look": (_I, (_P,)), "wait_end": (None, (_P,)), "lines_threads_beside": (None, (_P, _I)),
    "lines_deadline": (None, (_P, ctypes.c_double)), "lines_alive": (None, (_P, ctypes.c_double)),
    "lines_gone": (None, (_P, _S)), "lines_finish": (_I, (_P,)), "lines_free": (None, (_P,)),
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
        raise ImportError(f"this module is for interface {ABI}, the library {path} has "
                          f"{functions.abi()}; use the two of one version")
    return functions


lib = _load()


def _bind() -> Any:
    """The extension module, which reads inputs and agrees without ctypes; None: it was not built."""
    try:
        from . import _native  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return None
    _native.bind(*(ctypes.cast(function, ctypes.c_void_p).value
                   for function in (lib.set_all, lib.set_sizes, lib.agree_tested)))
    return _native


native = _bind()
_NO_CODE = lib.code_name(-1)
#: Names of all codes, by number; 0 is "OK".
CODES: Tuple[str, ...] = tuple(name.decode() for name in itertools.takewhile(
    lambda name: name != _NO_CODE, map(lib.code_name, itertools.count())))
NUMBERS = {name: number for number, name in enumerate(CODES)}
