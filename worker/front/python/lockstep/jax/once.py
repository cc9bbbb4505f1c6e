"""An executable that one process compiles for all its processes. The others load its bytes, whose SHA-256 comes over the
lines of watch.py."""

from __future__ import annotations

import hashlib
import logging
import time
import zlib
from typing import Any, Callable, NamedTuple, Optional, Protocol, Set, Tuple

from ..errors import said
from ..lines import NEEDS_NOBODY, Operation
from .modules import Board

_log = logging.getLogger("lockstep.jax")
#: Seconds for which the others wait for the first process to begin: it may be late, or compile something else.
_PATIENCE = 3.0
_TICK = 0.002
#: Most bytes of one executable, compressed, that are given to others.
_MOST = 64 << 20
_BUILDS, _BUILT, _KEEPS = "builds", "built", "keeps"


class Bytes(Protocol):
    """Bytes by key, which all processes of the job can read."""

    def put_bytes(self, key: str, data: bytes) -> None: ...

    def take_bytes(self, key: str, seconds: float) -> bytes: ...


class Way(NamedTuple):
    """How an executable is made on this process."""

    build: Callable[[], Any]
    save: Callable[[Any], bytes]
    load: Callable[[bytes], Any]


class Once:
    """The executables that this process compiles for others, and those that it loads."""

    def __init__(self, rank: int, board: Board, key: Any, store: Bytes, prefix: str, gives: Callable[[int], bool]) -> None:
        """`key`, `prefix`: of this watch, among posts and in the store. `gives`: whether what a rank compiles runs here,
        and the rank can still compile."""
        self._rank, self._board, self._key, self._store, self._prefix = rank, board, key, store, prefix
        self._gives = gives
        self._given: Set[str] = set()  # digests of modules whose executables are in the store
        #: Number of executables that this process has loaded.
        self.loaded = 0

    def executable(self, name: str, digest: str, members: Tuple[int, ...], most: float, way: Way) -> Any:
        """Returns the executable of a module with this digest, which covers all that its bytes depend on. The first of
        `members` builds it. The others wait while it does, at most `most` seconds, and build it themselves if they get
        no bytes."""
        if members[0] == self._rank:
            return self._built(name, digest, way)
        data = self._bytes_of(digest, members[0], most)
        if data is not None:
            try:
                executable = way.load(data)
                self.loaded += 1
                return executable
            except Exception as error:
                _log.warning("%s of rank %d cannot be loaded, and is compiled here: %s", name, members[0], said(error))
        return way.build()

    def _built(self, name: str, digest: str, way: Way) -> Any:
        if digest in self._given:
            return way.build()
        self._tell(_BUILDS, digest)
        try:
            executable = way.build()
        except BaseException:
            self._tell(_KEEPS, digest)
            raise
        try:
            data = zlib.compress(way.save(executable), 1)
            if len(data) > _MOST:
                raise ValueError(f"it has {len(data)} bytes")
            self._store.put_bytes(self._prefix + digest, data)
            self._tell(_BUILT, digest, hashlib.sha256(data).hexdigest())
            self._given.add(digest)
        except Exception as error:
            _log.warning("%s cannot be given to other processes, which compile it, too: %s", name, said(error))
            self._tell(_KEEPS, digest)
        return executable

    def _bytes_of(self, digest: str, builder: int, most: float) -> Optional[bytes]:
        began = time.monotonic()
        while self._gives(builder):
            state, sha = self._said(builder, digest)
            waited = time.monotonic() - began
            if state == _BUILT:
                return self._taken(digest, sha, builder)
            if state == _KEEPS or waited > (_PATIENCE if state == "" else most):
                return None
            time.sleep(_TICK)
        return None

    def _taken(self, digest: str, sha: str, builder: int) -> Optional[bytes]:
        try:
            data = self._store.take_bytes(self._prefix + digest, _PATIENCE)
        except Exception as error:
            _log.warning("an executable of rank %d does not arrive, and is compiled here: %s", builder, said(error))
            return None
        if hashlib.sha256(data).hexdigest() != sha:
            _log.warning("an executable of rank %d has arrived with other bytes than it was sent with, and is compiled here",
                         builder)
            return None
        return zlib.decompress(data)

    def _tell(self, state: str, digest: str, sha: str = "") -> None:
        self._board.tell(self._key, Operation(state, digest, place=sha, needs=NEEDS_NOBODY))

    def _said(self, rank: int, digest: str) -> Tuple[str, str]:
        """Returns what a rank has said last of a module; "": nothing."""
        for number in range(self._board.times_told(self._key, rank), 0, -1):
            post = self._board.told(self._key, rank, number)
            if post is not None and post.dtype == digest:
                return post.kind, post.place
        return "", ""
