"""How the ranks of a PyTorch job meet: through the store of torch.distributed, without settings by hand."""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import shutil
import socket
import tempfile
from collections import Counter
from typing import Any, Dict, Iterator, List

import torch
import torch.distributed as dist

from ..group import Group
from ..meeting import Meeting, boot, free_address, meeting_place
from ..threads import limit_threads, share_of_cores
from ._hooks import default_store, store_host

_opened: Dict[str, int] = {}


def group_of_mesh(given: Any) -> Any:
    """Returns the process group of a DeviceMesh, which must have one dim, such as mesh["tp"], or all ranks. Returns
    anything else unchanged."""
    if not hasattr(given, "get_group") or not hasattr(given, "mesh_dim_names"):
        return given
    if given.ndim == 1:
        return given.get_group()
    if given.size() != dist.get_world_size():
        raise ValueError(f"the mesh has {given.ndim} dims and {given.size()} of the {dist.get_world_size()} ranks; give one dim "
                         "of it, such as mesh[\"dp\"], or a mesh of all ranks")
    return dist.group.WORLD


def needs_start(function: str) -> None:
    """Raises RuntimeError if torch.distributed has not been initialised."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("torch.distributed is not initialised; call torch.distributed.init_process_group() before "
                           f"lockstep.torch.{function}()")


def group(process_group: Any = None, deadline: float = 60.0) -> Group:
    """Returns the ranks of `process_group` (default: all ranks; may be a dim of a DeviceMesh) as a lockstep group.
    Collective over the process group; other ranks take no part. The ranks exchange the group's address and a secret
    through the store of init_process_group(). Unless OMP_NUM_THREADS is set, the threads of torch, OpenMP and BLAS are
    limited to this rank's share of the host's cores. Raises RuntimeError if torch.distributed has not been initialised,
    this process is not in the process group, or a rank is missing after five deadlines (the error names that rank).
    Errors of the rendezvous are those of Group."""
    needs_start("group")
    process_group = group_of_mesh(process_group)
    rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    if rank < 0:
        raise RuntimeError("this process is not in the given process group; call "
                           "lockstep.torch.group() on its members only")
    if size == 1:
        return Group(alone=True)
    members = dist.get_process_group_ranks(process_group or dist.group.WORLD)
    name = "lockstep/" + ",".join(map(str, members))
    _opened[name] = _opened.get(name, 0) + 1  # members open the groups of these ranks in the same order
    store = _Store()
    meeting = Meeting(store, f"{name}/{_opened[name]}", members, 5 * deadline, "lockstep.torch.group()")
    meeting.tell(f"host/{rank}", _host())
    if rank > 0:
        place, token = meeting.hear("place", 0).split(" ")
        _share_cores(int(meeting.hear(f"ranks/{_host()}", 0)))
        with _environment(place, rank, size, token):
            return Group(deadline=deadline)
    hosts = Counter(meeting.hear(f"host/{other}", other) for other in range(size))
    for host, ranks in hosts.items():
        meeting.tell(f"ranks/{host}", str(ranks))
    _share_cores(hosts[_host()])
    folder = None
    try:
        folder = tempfile.mkdtemp(prefix="lockstep-") if len(hosts) == 1 else None
        place = os.path.join(folder, "rendezvous") if folder else free_address(store)
        token = secrets.token_hex(32)
        meeting.tell("place", f"{place} {token}")
        with _environment(place, rank, size, token):
            return Group(deadline=deadline)
    except OSError as error:
        meeting.tell("place", f"! {error}")  # the other ranks wait for the place
        raise
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def place_to_meet() -> str:
    """Returns meeting_place() of torch.distributed's store."""
    return meeting_place(_Store())


def exchange(process_group: Any, word: str, patience: float) -> List[str]:
    """Returns each member's word, by rank of the job; "" for ranks that are no members. Collective over the process
    group. Raises RuntimeError if a member is missing after `patience` seconds; the error names it."""
    members = dist.get_process_group_ranks(process_group or dist.group.WORLD)
    name = "lockstep/words/" + ",".join(map(str, members))
    _opened[name] = _opened.get(name, 0) + 1
    meeting = Meeting(_Store(), f"{name}/{_opened[name]}", members, patience, "lockstep.torch.watch()")
    words = [""] * dist.get_world_size()
    for member, said in zip(members, meeting.exchange(dist.get_rank(process_group), word)):
        words[member] = said
    return words


class _Store:
    """The store of torch.distributed."""

    def __init__(self) -> None:
        self._store = default_store()
        self.host: str = store_host(self._store) or ""

    def put(self, key: str, text: str) -> None:
        self._store.set(key, text)

    def take(self, key: str, seconds: float) -> str:
        self._store.wait([key], datetime.timedelta(seconds=seconds))
        text: str = self._store.get(key).decode()
        return text


def _share_cores(ranks: int) -> None:
    """Limits the threads of torch and of numerical libraries to this rank's share of the cores of a host with `ranks`
    ranks, unless the environment sets the number."""
    share = share_of_cores(ranks)
    if share is not None:
        torch.set_num_threads(min(torch.get_num_threads(), share))
        limit_threads(ranks)


def _host() -> str:
    """Returns a text that is equal on ranks with the same folder for temporary files: they can meet by a file in that
    folder."""
    folder = os.stat(tempfile.gettempdir())
    return f"{socket.gethostname()} {boot()} {folder.st_dev} {folder.st_ino}"


@contextlib.contextmanager
def _environment(place: str, rank: int, size: int, token: str) -> Iterator[None]:
    """Inside this context, the environment variables that the library reads when a group is opened are set."""
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
