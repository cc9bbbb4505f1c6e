"""What inductor builds for a version, built on one rank of the job and used by all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import re
import sys
import tempfile
import time
import zipfile
from typing import Dict, Iterator, Optional, Set

import torch

from ..decision import Decision
from ._hooks import inductor_builds, inductor_folder

_ARTIFACTS = "artifacts"
_OBJECT = re.compile(r"[a-z0-9]{2}/\w[\w.]*\.so")


class SharedBuild:
    """The first rank builds and shares what inductor keeps in its caches on disk, and the objects of kernels;
    ranks with the same processor and versions load that, find it, and build nothing. It is kept in this
    user's own files for the next run. As those caches, it only ever saves time."""

    def __init__(self, decision: Decision, name: str, is_first: bool) -> None:
        self._decision, self._is_first = decision, is_first
        symbols = [f"{s.source} {s.min}" for s in decision.symbols.values()]  # without examples of this run
        self._of = "\n".join([name, json.dumps(decision.inputs, sort_keys=True), *symbols, _platform()])

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Around the build. Collective."""
        kept = self._decision.kept(self._of) if self._is_first else self._decision.share(self._of)
        if kept is None and not self._is_first:
            kept = self._decision.kept(self._of)  # of an earlier run, in which the first rank was another
        if kept is not None:
            _load(kept)
        made: Optional[bytes] = None
        before, builds, began = _objects_in_use(), inductor_builds(), time.time()
        try:
            yield
            made = kept if kept is not None and inductor_builds() == builds else _saved(before, began)
        finally:
            if self._is_first:
                self._decision.share(self._of, made)


def _platform() -> str:
    """All that objects depend on beside their text."""
    features: Set[str] = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as text:
        features = {line for line in text if line.startswith(("flags", "model name", "Features"))}
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return "\n".join([torch.__version__, sys.version, platform.platform(), *sorted(features),
                      *sorted({f"{gpu.name} {gpu.major}.{gpu.minor}" for gpu in gpus})])


def _objects_in_use() -> Set[str]:
    """Objects in inductor's folder that this process has mapped, by their names there."""
    folder = inductor_folder() + os.sep
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        paths = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps}
        return {path[len(folder):] for path in paths if path.startswith(folder) and path.endswith(".so")}
    return set()


def _objects_since(began: float) -> Set[str]:
    folder = inductor_folder()
    found = set()
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            with contextlib.suppress(OSError):
                if name.endswith(".so") and os.stat(path).st_mtime >= began - 1:
                    found.add(os.path.relpath(path, folder))
    return found


def _saved(before: Set[str], began: float) -> Optional[bytes]:
    saved = torch.compiler.save_cache_artifacts()
    if saved is None:
        return None
    parts: Dict[str, bytes] = {_ARTIFACTS: saved[0]}
    for name in (_objects_in_use() - before) | _objects_since(began):
        if _OBJECT.fullmatch(name):
            with contextlib.suppress(OSError), open(os.path.join(inductor_folder(), name), "rb") as file:
                parts[name] = file.read()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(parts):
            archive.writestr(zipfile.ZipInfo(name), parts[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _load(saved: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        for name in archive.namelist():
            if _OBJECT.fullmatch(name):
                _put(os.path.join(inductor_folder(), name), archive.read(name))
        torch.compiler.load_cache_artifacts(archive.read(_ARTIFACTS))


def _put(path: str, data: bytes) -> None:
    """Whole, or not at all."""
    if os.path.exists(path):
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(part, 0o755)
        os.replace(part, path)
