"""How the processes of a job exchange a few words before they can read each other's lines: through the store that the
job's framework has."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from typing import List, Protocol


class Store(Protocol):
    """Texts by key, which all processes of the job can read."""

    #: The host of the store, as this process knows it; "": not known.
    host: str

    def put(self, key: str, text: str) -> None: ...

    def take(self, key: str, seconds: float) -> str:
        """Waits until the key has a text, and returns it. Raises an exception if it has none after `seconds`."""


class Meeting:
    """Messages between `members`, through a store. All waits of this process together take at most `patience`
    seconds."""

    def __init__(self, store: Store, key: str, members: List[int], patience: float, call: str,
                 word: str = "rank", everyone: str = "every rank of the process group") -> None:
        """`key`: different for each meeting of the job. For errors: `call`, the user's call in which the members meet,
        and what its framework calls a member (`word`) and all of them (`everyone`)."""
        self._store, self._key, self._members = store, key, members
        self._call, self._word, self._everyone = call, word, everyone
        self._patience, self._until = patience, time.monotonic() + patience
        self._exchanges = 0

    def tell(self, what: str, text: str) -> None:
        self._store.put(f"{self._key}/{what}", text)

    def hear(self, what: str, member: int) -> str:
        """Waits for the message `what` of members[member], and returns it. Raises RuntimeError, which names that
        member, if no message arrives, or if it says that the member cannot begin."""
        left = max(self._until - time.monotonic(), 0.01)
        try:
            text = self._store.take(f"{self._key}/{what}", left)
        except Exception as error:  # its type varies between frameworks and their releases
            raise RuntimeError(f"{self._word} {self._members[member]} did not come to {self._call} within "
                               f"{self._patience:g} s; {self._everyone} has to call it") from error
        if text.startswith("! "):
            raise RuntimeError(f"{self._word} {self._members[member]} cannot begin: {text[2:]}")
        return text

    def exchange(self, own: int, word: str) -> List[str]:
        """Returns the words of all members, in their order. `own`: this process's place among them. Collective."""
        self._exchanges += 1
        self.tell(f"{self._exchanges}/{own}", word)
        return [self.hear(f"{self._exchanges}/{at}", at) for at in range(len(self._members))]


def boot() -> str:
    """Returns a text that is equal for processes of one running machine; "": the system does not say."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as text:
        return text.read().strip()
    return ""


def meeting_place(store: Store) -> str:
    """Returns two words, an address of this host and a secret, to be sent to the other hosts. If there is no address,
    returns a text for which Meeting.hear() raises RuntimeError."""
    try:
        return f"{free_address(store)} {secrets.token_hex(32)}"
    except OSError as error:
        return f"! {error}"


def free_address(store: Store) -> str:
    """Returns the address from which this host reaches the store, with a port that is free now. (All processes can
    reach the store, but a host's own name often stands for its loopback.)"""
    host = _way_to(store.host) if store.host else ""
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
