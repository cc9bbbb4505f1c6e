"""The canonical text of a module that JAX compiles, and how two such texts differ. Pure: without JAX."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

_LOCATION = re.compile(r' loc\((?:#loc\d*|unknown|"(?:[^"\\]|\\.)*")\)')
_AT_END = re.compile(r" loc\((#loc\d*)\)$")
_DEFINED = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_FILE_LINE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):')
_REFERENCE = re.compile(r"#loc\d*")
_ARGUMENT = re.compile(r'%arg(\d+): ([^\s{,)]+(?:<[^>]*>)?)( \{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\})?(?: loc\("((?:[^"\\]|\\.)*)"\))?')
#: Custom calls into the Python of the process carry numbers that belong to the process.
_CALLBACK = re.compile(r'(custom_call @xla_(?:ffi_)?(?:python|partitioned_python)_[^ ]*\(.*?backend_config = )("[^"]*"|\{[^}]*\})')
_SHARDING = re.compile(r"(?:sdy|mhlo)\.sharding = ((?:#sdy\.sharding)?(?:<[^>]*>|\"[^\"]*\"))")
_MOST_SHOWN = 200  # characters of an operation


class Argument(NamedTuple):
    """An argument of a module: "batch['x']", "tensor<4x4xf32>"."""

    name: str
    type: str
    donated: bool
    sharding: str


class Module(NamedTuple):
    """A module as its process has posted it."""

    name: str
    #: Digest of all that must be equal on all processes.
    digest: str
    #: The operations, one per line, without locations; the place in the program follows a tab.
    operations: Sequence[str]
    arguments: Sequence[Argument]
    #: Facts outside the text that are part of the digest: number of partitions, devices, the user's compiler options.
    options: Mapping[str, str]
    #: Values of the static arguments, by name. They are not part of the digest.
    static: Mapping[str, str]

    def packed(self) -> str:
        """Returns the module as a text that unpacked() reads."""
        text = json.dumps([self.name, self.digest, list(self.operations), list(self.arguments), dict(self.options),
                           dict(self.static)], separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def unpacked(text: str) -> Optional[Module]:
    """Returns the posted module; None: the text is none."""
    try:
        name, digest, operations, arguments, options, static = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        return Module(name, digest, operations, [Argument(*argument) for argument in arguments], options, static)
    except (ValueError, TypeError, zlib.error):
        return None


def module_of(name: str, text: str, options: Mapping[str, str], static: Mapping[str, str]) -> Module:
    """`text`: the module as MLIR prints it with debug info."""
    lines = [canonical(line) for line in _without_definitions(text)]
    digest = hashlib.sha256("\n".join([name, *lines, json.dumps(dict(options), sort_keys=True)]).encode(errors="replace"))
    return Module(name, digest.hexdigest()[:32], lines, (), options, static)


def with_places(module: Module, text: str) -> Module:
    """Returns the module with the arguments and the places of its operations, for a report."""
    places = Places(text)
    operations: List[str] = []
    arguments: List[Argument] = []
    for line, given in zip(module.operations, _without_definitions(text)):
        if not arguments and "func.func public @main(" in given:
            arguments = list(arguments_of(given))
        at = _AT_END.search(given)
        place = places.of(at.group(1)) if at else ""
        operations.append(f"{line.strip()}\t{place}" if place else line.strip())
    return module._replace(operations=operations, arguments=arguments)


def _without_definitions(text: str) -> List[str]:
    """Returns the lines of a module without the definitions of its locations."""
    return [line for line in text.split("\n") if not line.startswith("#loc")]


def canonical(line: str) -> str:
    """Returns a line of a module without what may differ between processes by design: locations, and the numbers by
    which XLA calls back into a process's Python."""
    line = _LOCATION.sub("", line)
    return _CALLBACK.sub(r"\1", line) if "custom_call @xla_" in line else line


def arguments_of(signature: str) -> Iterator[Argument]:
    """Reads the arguments of a module from the line of its main function."""
    inputs = signature.partition(") -> ")[0]
    for number, kind, attributes, name in _ARGUMENT.findall(inputs):
        sharding = _SHARDING.search(attributes)
        yield Argument(name.replace('\\"', '"') or f"arg{number}", kind,
                       "jax.buffer_donor" in attributes or "tf.aliasing_output" in attributes,
                       sharding.group(1) if sharding else "")


class Places:
    """The places of a module's operations in the program."""

    def __init__(self, text: str) -> None:
        self._found: Dict[str, str] = {}
        self._defined: Dict[str, str] = {}
        for line in text.split("\n"):
            found = _DEFINED.match(line) if line.startswith("#loc") else None
            if found:
                self._defined[found.group(1)] = found.group(2)

    def of(self, name: str) -> str:
        """Returns the innermost file and line that a location leads to: "train.py:41"; "": it leads to none."""
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def _search(self, name: str) -> str:
        seen, stack = set(), [name]
        while stack:
            name = stack.pop()
            body = self._defined.get(name, "")
            found = _FILE_LINE.search(body)
            if found:
                return f"{os.path.basename(found.group(1))}:{found.group(2)}"
            seen.add(name)
            stack += [each for each in reversed(_REFERENCE.findall(body)) if each not in seen]
        return ""


def difference(a: Module, b: Module, rank_a: int, rank_b: int) -> str:
    """Returns how the modules of two ranks differ: first what made them differ, as far as facts show it, then the first
    operation that differs. "": no difference is known."""
    if a.name != b.name:
        return ""  # other functions: the report of the run names them
    parts = [*_facts(a.static, b.static, rank_a, rank_b, "the static argument {}"),
             *_arguments(a.arguments, b.arguments, rank_a, rank_b),
             *_facts(a.options, b.options, rank_a, rank_b, "{}")]
    at = next((i for i, pair in enumerate(zip(a.operations, b.operations)) if _bare(pair[0]) != _bare(pair[1])),
              min(len(a.operations), len(b.operations)))
    # A line of a function's signature shows its types only, so the first operation behind it says more.
    while at < min(len(a.operations), len(b.operations)) and "func.func" in a.operations[at] and _first_after(a, b, at) is not None:
        at = _first_after(a, b, at) or at
    if at < max(len(a.operations), len(b.operations)):
        parts.append(f"the first operation that differs: rank {rank_a}: {_shown(a.operations, at)}; "
                     f"rank {rank_b}: {_shown(b.operations, at)}")
    return "; ".join(parts)


def _first_after(a: Module, b: Module, at: int) -> Optional[int]:
    return next((i for i in range(at + 1, min(len(a.operations), len(b.operations)))
                 if _bare(a.operations[i]) != _bare(b.operations[i])), None)


def _facts(a: Mapping[str, str], b: Mapping[str, str], rank_a: int, rank_b: int, name: str) -> List[str]:
    return [f"{name.format(key)} is {a.get(key, 'not set')} on rank {rank_a} and {b.get(key, 'not set')} on rank {rank_b}"
            for key in [*a, *(key for key in b if key not in a)] if a.get(key) != b.get(key)]


def _arguments(a: Sequence[Argument], b: Sequence[Argument], rank_a: int, rank_b: int) -> Iterator[str]:
    if len(a) != len(b):
        yield f"{len(a)} arguments on rank {rank_a} and {len(b)} on rank {rank_b}"
    for mine, theirs in zip(a, b):
        if mine.name != theirs.name:
            yield f"an argument is {mine.name} on rank {rank_a} and {theirs.name} on rank {rank_b}"
            return
        if mine.type != theirs.type:
            yield f"{mine.name} is {_size(mine)} on rank {rank_a} and {_size(theirs)} on rank {rank_b}"
        if mine.donated != theirs.donated:
            yield f"{mine.name} is donated on rank {rank_a if mine.donated else rank_b} only"
        if mine.sharding != theirs.sharding:
            yield (f"{mine.name} has the sharding {mine.sharding or 'unspecified'} on rank {rank_a} and "
                   f"{theirs.sharding or 'unspecified'} on rank {rank_b}")


def _size(argument: Argument) -> str:
    """Returns "f32[4, 16]"."""
    found = re.fullmatch(r"tensor<((?:\d+x)*)([^<>]*)>", argument.type)
    return argument.type if found is None else f"{found.group(2)}[{', '.join(filter(None, found.group(1).split('x')))}]"


def _bare(operation: str) -> str:
    return operation.split("\t", 1)[0]


def _shown(operations: Sequence[str], at: int) -> str:
    if at >= len(operations):
        return "no more operations"
    text, _, place = operations[at].partition("\t")
    # JAX knows no place of some constants; the first operation behind one that has a place uses it, as a rule.
    place = place or next((each.partition("\t")[2] for each in operations[at:at + 8] if "\t" in each), "")
    text = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
    return f"{text} at {place}" if place else text


def words(values: Mapping[str, Any]) -> Dict[str, str]:
    """Returns the values as short texts without addresses."""
    return {name: re.sub(r"0x[0-9a-f]{6,}", "0x…", repr(value))[:_MOST_SHOWN] for name, value in values.items()}
