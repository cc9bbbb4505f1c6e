"""Finds and loads liblockstep: its functions (lockstep.h has the contract; native/arguments.h says how Python calls
them) and its codes."""

from __future__ import annotations

import importlib
import itertools
import os
import pathlib
import types
from typing import Any, Iterator, List, Tuple

try:
    native: Any = importlib.import_module("._native", __package__)
except ImportError as error:
    raise ImportError("the extension lockstep._native was not found; install the package with pip, or build the target "
                      f"lockstep_native [{error}]") from None

#: The version of the library's interface that this package calls.
ABI = 1


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
    yield "liblockstep.so.1"  # where the system keeps libraries


def _load() -> Any:
    """Returns the functions of liblockstep, named without their prefix."""
    tried: List[str] = []
    for path in _candidates():
        try:
            functions = types.SimpleNamespace(**native.load(os.fsencode(path)))
            break
        except OSError as error:
            tried.append(f"{path} ({error})")
    else:
        raise ImportError("liblockstep was not found; set LOCKSTEP_LIBRARY to its path [tried: " + "; ".join(tried) + "]")
    if functions.abi() != ABI:
        raise ImportError(f"this module is for interface {ABI}, the library {path} has "
                          f"{functions.abi()}; use the two of one version")
    return functions


lib = _load()
_NO_CODE = lib.code_name(-1)
#: Names of all codes, by number; 0 is "OK".
CODES: Tuple[str, ...] = tuple(itertools.takewhile(lambda name: name != _NO_CODE, map(lib.code_name, itertools.count())))
NUMBERS = {name: number for number, name in enumerate(CODES)}
