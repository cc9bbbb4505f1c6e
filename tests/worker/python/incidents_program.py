"""A program of tests/worker/python/incidents, as its first lines state it before anything has run it."""

import pathlib
import re
from dataclasses import dataclass

FOLDER = pathlib.Path(__file__).resolve().parent / "incidents"
CLASSES = ("pairing", "meaning", "late", "legal")
FRAMEWORKS = ("torch", "jax")
_KEYS = {"class", "framework", "verdict", "ranks", "lines", "odd", "group", "module", "error"}


@dataclass
class Program:
    """`kind`: one of CLASSES; `verdicts`: names of errors, one of which at least one rank raises (none: it ends well);
    `sizes`: numbers of ranks; `lines`: numbers of the lines that the report names; `odd`: the rank that is unlike the others,
    None: there is none; `named`: further texts of the report; `is_refused`: by policy "error";
    `framework`: one of FRAMEWORKS."""

    name: str
    path: pathlib.Path
    title: str
    kind: str
    verdicts: list
    sizes: list
    lines: list
    odd: int
    named: list
    is_refused: bool
    framework: str


def read(path):
    """Raises ValueError, with the file, where the first lines do not state what they have to."""
    def refuse(why):
        raise ValueError(f"{path.relative_to(FOLDER)}: {why}")
    text = path.read_text()
    found = re.match(r'"""(.*?)\n\n(.*?)\n?"""\n', text, re.S)
    if found is None:
        refuse("it does not begin with a title, an empty line and what is expected")
    stated = {}
    for line in found.group(2).splitlines():
        key, colon, value = line.partition(": ")
        if not colon or key not in _KEYS or key in stated:
            refuse(f"{line!r} is none of its lines; they are " + ", ".join(sorted(_KEYS)))
        stated[key] = value.strip()
    kind = stated.get("class")
    if kind != path.parent.name or kind not in CLASSES:
        refuse(f"its class is {kind!r}, its folder {path.parent.name}")
    framework = stated.get("framework", "torch")
    if framework not in FRAMEWORKS or (framework != "torch" and kind != "pairing"):
        refuse(f"its framework is {framework!r}, its class {kind!r}; frameworks are " + ", ".join(FRAMEWORKS)
               + ", of which only the first has other classes than pairing")
    numbers = {mark: number for number, line in enumerate(text.splitlines(), 1) for mark in re.findall(r"  # \[(\w+)\]$", line)}
    marks = stated.get("lines", "").split()
    for mark in marks:
        if mark not in numbers:
            refuse(f"no line ends with '  # [{mark}]'")
    verdicts = [] if stated.get("verdict") in ("none", "told") else stated.get("verdict", "").split(" or ")
    if verdicts == [""] or bool(verdicts) != (kind == "pairing"):
        refuse("a wrong pairing has as verdict an error's name, or several with 'or' between; else it is 'told' or 'none'")
    if kind in ("pairing", "meaning") and not marks:
        refuse("no line is named")
    return Program(path.stem, path, " ".join(found.group(1).split()), kind, verdicts,
                   [int(size) for size in stated.get("ranks", "2").split()],
                   [numbers[mark] for mark in marks], int(stated["odd"]) if "odd" in stated else None,
                   [stated[key] for key in ("group", "module") if key in stated], stated.get("error") == "refused", framework)


def programs():
    """All, by name."""
    found = [read(path) for kind in CLASSES for path in sorted((FOLDER / kind).glob("*.py"))]
    names = [program.name for program in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two programs are called {name}")
    return {program.name: program for program in found}
