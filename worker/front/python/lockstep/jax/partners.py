"""Which processes an executable's collectives bring together, from the text of XLA's module. Pure."""

from __future__ import annotations

import math
import re
from typing import FrozenSet, Iterator, List, NamedTuple, Optional, Sequence

_COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast|"
                         r"ragged-all-to-all|send|recv)(?:-start)?\(")
_LISTED = re.compile(r"(replica_groups|source_target_pairs)=\{((?:\{[0-9,]*\},?)*)\}")
_COUNTED = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=\[([0-9,]+)\](?:T\(([0-9,]+)\))?")
_BY_MESH = re.compile(r"replica_groups=mesh\[((?:'[^']*'=\d+,?)*)\] \{((?:'[^']*',?)*)\}")
#: Collectives that end on a member only after all members of its group have begun.
_NEEDS_GROUP = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


class Partners(NamedTuple):
    """What the collectives of an executable need."""

    #: Some collective is between processes.
    communicates: bool
    #: Some collective ends on a process only after all processes of the executable have begun it.
    needs_all: bool


def partners_of(text: str, process_of: Sequence[int]) -> Partners:
    """`process_of`: the process of each device, in the executable's order."""
    everyone, communicates, needs_all = frozenset(process_of), False, False
    for line in text.split("\n"):
        found = _COLLECTIVE.search(line)
        if found is None:
            continue
        groups = _groups(line, len(process_of))
        if groups is None:
            communicates = True  # groups are written in a way that is not known here
            continue
        for group in groups:
            processes: FrozenSet[int] = frozenset(process_of[device] for device in group if device < len(process_of))
            communicates = communicates or len(processes) > 1
            needs_all = needs_all or (found.group(1) in _NEEDS_GROUP and processes == everyone)
    return Partners(communicates, needs_all)


def _groups(line: str, devices: int) -> Optional[List[List[int]]]:
    listed = _LISTED.search(line)
    if listed is not None:
        groups = [[int(device) for device in group.split(",") if device] for group in re.findall(r"\{([0-9,]*)\}", listed.group(2))]
        return groups or [list(range(devices))]
    by_mesh = _BY_MESH.search(line)
    if by_mesh is not None:
        axes = re.findall(r"'([^']*)'=(\d+)", by_mesh.group(1))
        within = set(re.findall(r"'([^']*)'", by_mesh.group(2)))
        last = [at for at, (name, _) in enumerate(axes) if name in within]
        numbers = list(_transposed([int(size) for _, size in axes], [at for at in range(len(axes)) if at not in last] + last))
        columns = math.prod(int(axes[at][1]) for at in last)
        return [numbers[begin:begin + columns] for begin in range(0, len(numbers), columns)]
    counted = _COUNTED.search(line)
    if counted is None:
        return None
    rows, columns = int(counted.group(1)), int(counted.group(2))
    sizes = [int(size) for size in counted.group(3).split(",")]
    order = [int(dim) for dim in counted.group(4).split(",")] if counted.group(4) else list(range(len(sizes)))
    numbers = list(_transposed(sizes, order))
    return [numbers[row * columns:(row + 1) * columns] for row in range(rows)]


def _transposed(sizes: Sequence[int], order: Sequence[int]) -> Iterator[int]:
    """Returns 0, 1, 2, …, laid out in dims of these sizes, read with the dims in another order."""
    steps = [1] * len(sizes)
    for dim in range(len(sizes) - 2, -1, -1):
        steps[dim] = steps[dim + 1] * sizes[dim + 1]

    def read(dims: Sequence[int], begin: int) -> Iterator[int]:
        if not dims:
            yield begin
            return
        for at in range(sizes[dims[0]]):
            yield from read(dims[1:], begin + at * steps[dims[0]])
    return read(order, 0)
