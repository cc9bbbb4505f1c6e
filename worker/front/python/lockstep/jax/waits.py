"""Whether a thread of this process waits inside a native library. Linux: reads what the system says of the thread's
stack, and stops or slows nothing."""

from __future__ import annotations

import bisect
import contextlib
import os
import struct
from typing import List, Tuple

from ..meeting import boot

#: Bytes of a stack that are searched for the library that waits.
_STACK = 1 << 14
#: Numbers of the system call futex, on x86-64 and arm64. (In calls that only sleep or read, the stack may still hold
#: addresses of earlier calls.)
_FUTEX = ("202", "98")
#: Libraries in which every wait ends, whoever waits.
_BELOW = ("libc.so", "libc-", "ld-linux", "libpthread", "libstdc++", "libgcc_s", "libm.so", "[vdso]")


class Stacks:
    """The stacks of this process's threads."""

    def __init__(self) -> None:
        self._ranges: List[Tuple[int, int, str]] = []  # executable memory: begin, end, file; in order

    def waits_in(self, native_id: int) -> str:
        """Returns the file of the library from which a thread has entered the system call in which it sleeps: the
        file of the first return address on its stack that is not the C or C++ library's. "": it does not sleep, or the
        system does not say."""
        with contextlib.suppress(OSError, ValueError, struct.error):
            with open(f"/proc/self/task/{native_id}/syscall") as text:
                words = text.read().split()
            if len(words) < 3 or words[0] not in _FUTEX:  # "running", or a call in which XLA does not wait
                return ""
            top = int(words[-2], 16)
            with open("/proc/self/mem", "rb", buffering=0) as memory:
                stack = os.pread(memory.fileno(), _STACK, top)
            addresses = struct.unpack(f"{len(stack) // 8}Q", stack[:len(stack) // 8 * 8])
            for again in (False, True):
                if again or not self._ranges:
                    self._read_ranges()
                file = self._first(addresses)
                if file:
                    return file
        return ""

    def _first(self, addresses: Tuple[int, ...]) -> str:
        begins = [begin for begin, _, _ in self._ranges]
        for address in addresses:
            at = bisect.bisect_right(begins, address) - 1
            if at >= 0 and address < self._ranges[at][1]:
                file = self._ranges[at][2]
                if file and not os.path.basename(file).startswith(_BELOW):
                    return file
        return ""

    def _read_ranges(self) -> None:
        ranges = []
        with open("/proc/self/maps") as maps:
            for line in maps:
                parts = line.split(None, 5)
                if "x" in parts[1] and len(parts) > 5:
                    begin, end = (int(word, 16) for word in parts[0].split("-"))
                    ranges.append((begin, end, parts[5].strip()))
        self._ranges = sorted(ranges)


def some_thread_runs(but: int) -> bool:
    """Returns whether a thread of this process, other than `but` (a native id), runs or is ready to run, or waits for
    a disk."""
    for task in os.listdir("/proc/self/task"):
        if int(task) == but:
            continue
        if _letter_of(f"/proc/self/task/{task}") in ("R", "D"):
            return True
    return False


def _letter_of(folder: str) -> str:
    """Returns the state of a process or thread; "": it has ended, or the system does not say."""
    with contextlib.suppress(OSError), open(f"{folder}/stat") as text:
        return text.read().rpartition(")")[2].split()[0]
    return ""


def is_stopped(process: int) -> bool:
    """Returns whether a process of this host is stopped, by a signal or a debugger."""
    return _letter_of(f"/proc/{process}") in ("T", "t")


def is_running(process: int) -> bool:
    return _letter_of(f"/proc/{process}") not in ("", "Z", "X")


def host_name() -> str:
    """Returns a text that is equal for processes that can see each other by their process numbers."""
    with contextlib.suppress(OSError):
        return f"{boot()} {os.readlink('/proc/self/ns/pid')}"
    return f"{boot()} {os.getpid()}"
