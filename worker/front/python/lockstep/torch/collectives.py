"""Names of torch.distributed's collectives and of places in the program, for reports and comparisons."""

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
#: Folders of Python's own modules that call functions of the user.
_STANDARD = tuple(os.path.dirname(str(module.__file__)) for module in (contextlib, concurrent.futures))
_DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
           torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
           torch.uint8: "u8", torch.bool: "bool"}


def dtype_name(dtype: Any) -> str:
    return _DTYPES.get(dtype) or str(dtype).replace("torch.", "")


def tensor_text(dtype: Any, sizes: Optional[List[Any]]) -> str:
    """Returns "f32[4, 16]". A size that is None is not known. `sizes` is None if sizes may differ between ranks; the
    text is then "f32"."""
    if sizes is None:
        return dtype_name(dtype)
    return f"{dtype_name(dtype)}[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def is_user(file: str) -> bool:
    """Returns whether the code of a file is the user's: not torch's, lockstep's or Python's, nor generated."""
    return not file.startswith((*INSIDE, "<", _generated())) and os.path.dirname(file) not in _STANDARD


def _generated() -> str:
    """Returns the folder of inductor's generated code; "<", if there cannot be any."""
    return _folder(os.environ.get("TORCHINDUCTOR_CACHE_DIR")) if "torch._inductor" in sys.modules else "<"


@functools.lru_cache(maxsize=8)
def _folder(_: Optional[str]) -> str:
    """Caches inductor's folder by the setting that determines it, because torch creates the folder at each call."""
    return inductor_folder()


def user_place(frame: Optional[types.FrameType]) -> str:
    """Returns the line of the innermost function of the user's code: "train.py:41"."""
    while frame is not None and not is_user(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def module_path(module: torch.nn.Module) -> str:
    """Returns the path of `module`, which is being called, in the outermost module that is being called: "layers.3";
    "": `module` is the outermost."""
    outermost: Any = module
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code is torch.nn.Module._call_impl.__code__:
            outermost = frame.f_locals.get("self", outermost)
        frame = frame.f_back
    path = next((name for name, each in outermost.named_modules() if each is module), "")
    return ".".join(part for part in path.split(".") if part not in ("_orig_mod", "_fsdp_wrapped_module"))


#: Words of operations in graphs that are between two ranks.
POINT_TO_POINT = ("isend", "irecv", "batch_p2p_ops")
#: Exceptions to the rule of graph_word(), by operator: the word ("": the operator is no collective), and whether all
#: ranks must have the same sizes.
_IN_GRAPHS: Dict[str, Tuple[str, bool]] = {
    "all_to_all_single": ("all_to_all_single", False), "wait_tensor": ("", False),
}


def graph_word(operator: Any) -> Optional[Tuple[str, bool]]:
    """Returns the word for the collective that is a node's target, and whether the collective's ranks must have the
    same sizes; None: the target is not a collective."""
    space = str(getattr(operator, "namespace", getattr(operator, "_qualified_op_name", "")))
    name = str(getattr(operator, "__name__", "")).split(".")[0]
    if not space.startswith("_c10d_functional"):
        return None
    word, sizes = _IN_GRAPHS.get(name.rstrip("_"), (name.rstrip("_"), True))
    return (word, sizes) if word else None


def needs_equal_sizes(word: str) -> bool:
    """Returns whether the collective `word` in a graph needs operands of the same sizes on all ranks."""
    return word not in ("all_to_all_single", *POINT_TO_POINT)
