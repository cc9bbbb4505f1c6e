"""lockstep in a PyTorch job: its ranks meet through torch.distributed, with nothing set by hand.

    torch.distributed.init_process_group("gloo")
    with lockstep.torch.group() as ranks:
        step = lockstep.agreed(train_step, ranks)
        while ranks.more(have_batch):
            step(batch)
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
from typing import Any, Dict, Iterator

import torch.distributed as dist

from ..group import Group
from ._hooks import default_store

__all__ = ["group"]

_opened: Dict[str, int] = {}


def group(process_group: Any = None, deadline: float = 60.0) -> Group:
    """The ranks of `process_group` (default: all) as a lockstep group. Collective over that group; other
    ranks take no part. The address and a secret for it go through the store of
    init_process_group. Raises RuntimeError where torch.distributed has not been initialised, or this
    process is not in the group; errors of the rendezvous are those of Group."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("torch.distributed is not initialised; call "
                           "torch.distributed.init_process_group() before lockstep.torch.group()")
    rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    if rank < 0:
        raise RuntimeError("this process is not in the given process group; call "
                           "lockstep.torch.group() on its members only")
    if size == 1:
        return Group(alone=True)
    members = dist.get_process_group_ranks(process_group or dist.group.WORLD)
    name = "lockstep/" + ",".join(map(str, members))
    _opened[name] = _opened.get(name, 0) + 1  # members open the groups of one set in one order
    store, key = default_store(), f"{name}/{_opened[name]}"
    # Who shares this one's host, by its boot: containers may share a name.
    store.set(f"{key}/host/{rank}", f"{socket.gethostname()} {_boot()}")
    if rank > 0:
        place, token = store.get(f"{key}/place").decode().split(" ")
        with _environment(place, rank, size, token):
            return Group(deadline=deadline)
    hosts = {store.get(f"{key}/host/{other}") for other in range(size)}
    folder = tempfile.mkdtemp(prefix="lockstep-") if len(hosts) == 1 else None
    try:
        place = os.path.join(folder, "rendezvous") if folder else _address()
        token = secrets.token_hex(32)
        store.set(f"{key}/place", f"{place} {token}")
        with _environment(place, rank, size, token):
            return Group(deadline=deadline)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _boot() -> str:
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as text:
        return text.read().strip()
    return ""


def _address() -> str:
    """Of this host, as the ranks of other hosts reach it, with a port that is free now."""
    host = socket.gethostbyname(socket.gethostname())
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


@contextlib.contextmanager
def _environment(place: str, rank: int, size: int, token: str) -> Iterator[None]:
    """What the library reads when a group is opened."""
    wanted = {"LOCKSTEP_RENDEZVOUS": place, "LOCKSTEP_RANK": str(rank),
              "LOCKSTEP_WORLD_SIZE": str(size), "LOCKSTEP_TOKEN": token}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
