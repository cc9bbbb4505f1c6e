"""Shares inductor's builds: one rank of the job builds a version, and all ranks use the result."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import platform
import re
import sys
import tempfile
import zipfile
from typing import Any, Callable, Dict, Iterator, Optional, Set

import torch

from ..decision import Decision
from ._hooks import artifacts_apart, inductor_builds, inductor_folder, load_artifacts

_torch: Any = torch
_FORMAT = "1"  # version of the stored format
_ARTIFACTS = "artifacts"
_OBJECT = re.compile(r"[a-z0-9]{2}/\w[\w.]*\.so")


class SharedBuild:
    """The first rank builds, and shares its build: what inductor keeps in its caches on disk, and the objects of
    kernels. Ranks with the same processor and versions load the build into their own caches, and build nothing. Each
    rank also keeps the build, in files of this user, for the next run. Like inductor's caches, this only saves time."""

    def __init__(self, decision: Decision, name: str, is_first: bool, shared: Callable[[], None]) -> None:
        """`name`: name of the compiled function, unique among builds with the same inputs. `is_first`: this rank is the
        one that builds. `shared`: called when this rank no longer waits for the build of the first rank."""
        self._decision, self._is_first, self._shared = decision, is_first, shared
        symbols = [f"{s.source} {s.min}" for s in decision.symbols.values()]  # without hints, which vary between runs
        self._of = "\n".join([_FORMAT, name, json.dumps(decision.inputs, sort_keys=True), *symbols, _platform()])

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Collective. A context for the build of the version."""
        made: Optional[bytes] = None
        try:
            received = None if self._is_first else self._decision.share(self._of)
            kept = received or self._decision.kept(self._of)  # kept by a run with another first rank
            if kept is not None and not _loads(kept):
                kept = None
            self._shared()
            before, builds = _objects_in_use(), inductor_builds()
            with artifacts_apart() as artifacts:
                yield
                if self._is_first:
                    made = kept if kept is not None and inductor_builds() == builds else _saved(artifacts, before)
        finally:
            if self._is_first:
                self._decision.share(self._of, made)


def _platform() -> str:
    """Returns all that built objects depend on besides their source text."""
    features: Set[str] = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as text:
        features = {line for line in text if line.startswith(("flags", "model name", "Features"))}
    gpus: Set[str] = set()
    if _torch.cuda.is_initialized():
        found = map(_torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        gpus = {f"{gpu.name} {gpu.major}.{gpu.minor}" for gpu in found}
    return "\n".join([torch.__version__, sys.version, platform.platform(), *sorted(features), *sorted(gpus)])


def _objects_in_use() -> Set[str]:
    """Returns the names, relative to inductor's folder, of the shared objects in it that this process has mapped."""
    folder = inductor_folder() + os.sep
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        paths = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps}
        return {path[len(folder):] for path in paths if path.startswith(folder) and path.endswith(".so")}
    return set()


def _probes() -> Set[str]:
    """Returns the names of the shared objects with which inductor probes what the processor can do, and which it has
    marked as loadable."""
    folder, mark = inductor_folder(), ".load_ok"
    return {os.path.relpath(path, folder)[:-len(mark)] for path in glob.glob(f"{folder}/??/*.so{mark}")}


def _saved(artifacts: Callable[[], Optional[bytes]], before: Set[str]) -> Optional[bytes]:
    """Returns the artifacts, packed with the objects that this process has loaded, except those in `before`. (A loaded
    object is a complete file.) None: there is nothing to share."""
    try:
        saved = artifacts()
        if saved is None:
            return None
        parts: Dict[str, bytes] = {_ARTIFACTS: saved}
        for name in (_objects_in_use() - before) | _probes():
            if _OBJECT.fullmatch(name):
                with open(os.path.join(inductor_folder(), name), "rb") as file:
                    parts[name] = file.read()
    except Exception as error:
        _lost("kept for other ranks", error)
        return None
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(parts):
            archive.writestr(zipfile.ZipInfo(name), parts[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _loads(saved: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(saved)) as archive:
            for name in archive.namelist():
                if _OBJECT.fullmatch(name):
                    _put(os.path.join(inductor_folder(), name), archive.read(name))
            load_artifacts(archive.read(_ARTIFACTS))
        return True
    except Exception as error:
        _lost("loaded", error)
        return False


def _lost(what: str, error: Exception) -> None:
    print(f"lockstep: what inductor has built cannot be {what}: {type(error).__name__}: {error}", file=sys.stderr)


def _put(path: str, data: bytes) -> None:
    """Writes a file atomically, unless it exists."""
    if os.path.exists(path):
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(part, 0o755)
        os.replace(part, path)
