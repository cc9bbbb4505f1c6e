"""How the ranks of a PyTorch job meet: through the store of torch.distributed, without settings by hand."""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections import Counter
from typing import Any, Dict, Iterator, List

import torch
import torch.distributed as dist

from ..group import Group
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
    meeting = _Meeting(default_store(), f"{name}/{_opened[name]}", members, 5 * deadline, "lockstep.torch.group()")
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
        place = os.path.join(folder, "rendezvous") if folder else _address(meeting.store)
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


def meeting_place() -> str:
    """Returns two words, an address of this host and a secret, to be given to exchange(). If there is no address,
    returns a text for which exchange() raises RuntimeError on the ranks that receive it."""
    try:
        return f"{_address(default_store())} {secrets.token_hex(32)}"
    except OSError as error:
        return f"! {error}"


def exchange(process_group: Any, word: str, patience: float) -> List[str]:
    """Returns each member's word, by rank of the job; "" for ranks that are no members. Collective over the process
    group. Raises RuntimeError if a member is missing after `patience` seconds; the error names it."""
    members = dist.get_process_group_ranks(process_group or dist.group.WORLD)
    name = "lockstep/words/" + ",".join(map(str, members))
    _opened[name] = _opened.get(name, 0) + 1
    meeting = _Meeting(default_store(), f"{name}/{_opened[name]}", members, patience, "lockstep.torch.watch()")
    meeting.tell(str(dist.get_rank(process_group)), word)
    words = [""] * dist.get_world_size()
    for at, member in enumerate(members):
        words[member] = meeting.hear(str(at), at)
    return words


class _Meeting:
    """Messages between the members, through the store. All waits of this rank together take at most `patience`
    seconds."""

    def __init__(self, store: Any, key: str, members: List[int], patience: float, call: str) -> None:
        """`call`: the user's call in which the members meet, for errors."""
        self._call = call
        self.store, self._key, self._members = store, key, members
        self._patience, self._until = patience, time.monotonic() + patience

    def tell(self, what: str, text: str) -> None:
        self.store.set(f"{self._key}/{what}", text)

    def hear(self, what: str, member: int) -> str:
        """Waits for the message `what` of the group's rank `member`, and returns it. Raises RuntimeError, which names
        that rank, if no message arrives."""
        left = max(self._until - time.monotonic(), 0.01)
        try:
            self.store.wait([f"{self._key}/{what}"], datetime.timedelta(seconds=left))
        except Exception as error:  # its type varies between torch releases
            raise RuntimeError(f"rank {self._members[member]} did not come to {self._call} within "
                               f"{self._patience:g} s; every rank of the process group has to call it") from error
        text: str = self.store.get(f"{self._key}/{what}").decode()
        if text.startswith("! "):
            raise RuntimeError(f"rank {self._members[member]} cannot begin: {text[2:]}")
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
    boot = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as text:
        boot = text.read().strip()
    return f"{socket.gethostname()} {boot} {folder.st_dev} {folder.st_ino}"


def _address(store: Any) -> str:
    """Returns the address from which this host reaches the store, with a port that is free now. (All ranks can reach
    the store, but a host's own name often stands for its loopback.)"""
    at = store_host(store)
    host = "" if at is None else _way_to(at)
    if not host or host.startswith("127."):
        host = _own_address()
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


def _way_to(host: str) -> str:
    """Returns the address of this host from which packets to `host` would be sent; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def _own_address() -> str:
    """For the host of the store: returns the address of the host's name, or of its default route."""
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    return _way_to("192.0.2.1") or named if named.startswith("127.") else named


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
