"""The part that is built for one release of torch (native/torch_lines.cpp): an extension module, which posts what this process
issues, frees its waits, and notes what the watched thread issues on the watched group."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import pathlib
import sysconfig
import types
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Protocol, Tuple

import torch


@dataclass
class Marks:
    """What watch.py and the kernels tell each other: `within`, calls of this package under way, what they issue is not
    noted; `asks`: `before` is called; `noted`: how many notes there are; `waits`: the watched thread waits, and looks;
    `votes`: what is issued is noted; `audits`: errors are told and not raised; `patience`: seconds for which an operation
    waits beyond its time-out for ranks that compile."""

    within: int = 0
    asks: int = 0
    noted: int = 0
    waits: int = 0
    votes: int = 0
    audits: int = 0
    patience: int = 0


class Kernels(Protocol):
    """In front of each operator of torch.distributed: the part, or kernels.py without one."""

    marks: Marks

    def notes(self) -> List[str]:
        """What has been noted since clear(), a line each; the place follows a tab."""

    def clear(self) -> None: ...

    def runs_graph(self, code: types.CodeType, collectives: List[Tuple[str, str]]) -> None:
        """A compiled function runs a graph with these collectives, word and place, in order."""

    def forget(self) -> None:
        """In a copy of the process after a fork."""

    def end(self) -> None:
        """Python ends: nothing is posted any more, and no thread of the part needs Python."""

    def remove(self) -> None: ...


class Part(Kernels, Protocol):
    """Of this process."""

    def install(self, library: Any, lines: int, watching: int, watched: str,
                group: Callable[..., int], error: Callable[[], Exception], is_user: Callable[[str], bool],
                module_path: Callable[[Any], str], before: Callable[[str, str], None], threads: Callable[[], None],
                apart_grows: Callable[[], None], compiling: Callable[[], bool]) -> None:
        """See native/torch_python.h. `before`(what, place) is called before each noted operation while `marks.asks`; what
        it raises is raised there."""


@functools.lru_cache(None)
def load_part() -> Optional[Part]:
    """None: there is none for this torch."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # objects lie otherwise there
        return None
    minor = ".".join(torch.__version__.split("+", 1)[0].split(".")[:2])
    path = pathlib.Path(__file__).with_name(f"_lines_{minor}.so")
    if not path.exists():
        return None
    loader = importlib.machinery.ExtensionFileLoader(f"{__package__}._lines", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    part: Any = importlib.util.module_from_spec(spec)
    loader.exec_module(part)
    return part  # type: ignore[no-any-return]
