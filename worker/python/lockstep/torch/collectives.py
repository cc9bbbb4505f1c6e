"""Collectives of torch.distributed in words, and places of the program."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import sys
import types
from typing import Any, Dict, List, Optional, Tuple

import torch

from ._hooks import inductor_folder

#: Folders of torch and lockstep.
INSIDE = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
#: Folders of Python's own modules that call what they are given.
_STANDARD = tuple(os.path.dirname(str(module.__file__)) for module in (contextlib, concurrent.futures))
_DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
           torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
           torch.uint8: "u8", torch.bool: "bool"}


def dtype_name(dtype: Any) -> str:
    return _DTYPES.get(dtype) or str(dtype).replace("torch.", "")


def tensor_text(dtype: Any, sizes: Optional[List[Any]]) -> str:
    """ "f32[4, 16]"; sizes that are None are not known; no list: they may differ between ranks."""
    if sizes is None:
        return dtype_name(dtype)
    return f"{dtype_name(dtype)}[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def is_user(file: str) -> bool:
    """Whether the code of a file is the user's: not torch's, lockstep's or Python's, nor generated."""
    return not file.startswith((*INSIDE, "<", _generated())) and os.path.dirname(file) not in _STANDARD


def _generated() -> str:
    """The folder of inductor's code, where there can be any."""
    return _folder(os.environ.get("TORCHINDUCTOR_CACHE_DIR")) if "torch._inductor" in sys.modules else "<"


@functools.lru_cache(maxsize=8)
def _folder(_: Optional[str]) -> str:
    """By the setting that it depends on: torch makes the folder each time that it is asked for."""
    return inductor_folder()


def user_place(frame: Optional[types.FrameType]) -> str:
    """ "train.py:41": the line of the innermost function that is neither torch's nor lockstep's."""
    while frame is not None and not is_user(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def module_path(module: torch.nn.Module) -> str:
    """ "layers.3": where `module`, which is being called, stands in the outermost module that is; "" for that one."""
    outermost: Any = module
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code is torch.nn.Module._call_impl.__code__:
            outermost = frame.f_locals.get("self", outermost)
        frame = frame.f_back
    path = next((name for name, each in outermost.named_modules() if each is module), "")
    return ".".join(part for part in path.split(".") if part not in ("_orig_mod", "_fsdp_wrapped_module"))


#: Of graphs: what is between two ranks.
POINT_TO_POINT = ("isend", "irecv", "batch_p2p_ops")
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


def needs_equal_sizes(word: str) -> bool:
    """Whether a collective of graphs has operands of the same sizes on all ranks."""
    return word not in ("all_to_all_single", *POINT_TO_POINT)
