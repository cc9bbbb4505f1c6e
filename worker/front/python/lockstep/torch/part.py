"""The part (native/torch_lines.cpp): an extension module, built for one release of torch, that posts the operations of
this process, ends waits that cannot complete, and notes the operations of the watched thread on the watched group."""

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
    """Numbers and flags shared by watch.py and the kernels. `within`: number of running calls of this package, whose
    operations are not noted. `noted`: number of notes. `patience`: seconds for which an operation waits for ranks that
    compile, beyond the operation's time-out. Flags: `asks`: `before` is called before each operation; `waits`: the
    watched thread is waiting, and wakes only to poll; `votes`: operations are noted; `audits`: errors are logged, not
    raised."""

    within: int = 0
    asks: int = 0
    noted: int = 0
    waits: int = 0
    votes: int = 0
    audits: int = 0
    patience: int = 0


class Kernels(Protocol):
    """Kernels in front of each operator of torch.distributed: those of the part, or, without a part, of kernels.py."""

    marks: Marks

    def notes(self) -> List[str]:
        """Returns the notes since clear(), one per line; the place follows a tab."""

    def clear(self) -> None: ...

    def runs_graph(self, code: types.CodeType, collectives: List[Tuple[str, str]]) -> None:
        """Declares that `code`, made by a compile, runs a graph with these collectives (word and place), in this
        order."""

    def forget(self) -> None:
        """Stops posting; for a copy of the process after a fork."""

    def end(self) -> None:
        """Call it before Python ends. From then on nothing is posted, and no thread of the part needs Python."""

    def remove(self) -> None: ...


class Part(Kernels, Protocol):
    """The part of this process."""

    def install(self, library: Any, lines: int, watching: int, watched: str,
                group: Callable[..., int], error: Callable[[], Exception], is_user: Callable[[str], bool],
                module_path: Callable[[Any], str], before: Callable[[str, str], None], threads: Callable[[], None],
                apart_grows: Callable[[], None], compiling: Callable[[], bool]) -> None:
        """Starts to post. Most parameters are those of Given in native/torch_python.h. `before`(what, place) is called
        before each operation of the watched thread on the watched group while `marks.asks` is set; its exceptions are
        raised from the operation's call."""


@functools.lru_cache(None)
def load_part() -> Optional[Part]:
    """Loads the part; None: the package has none for this release of torch."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # Python's objects have another layout in such a build
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
