"""The table of runs of tests/worker/python/incidents, as a page and as JSON."""

import json
import statistics

from incidents_program import CLASSES, FRAMEWORKS

_TITLES = {"pairing": "Wrong pairings", "meaning": "Wrong meanings", "late": "Late ranks", "legal": "Healthy jobs"}
_TOOLS = {"bare": "bare", "detail": "`DETAIL`", "guards": "guard collectives", "watch": "`watch()`", "audit": "audit",
          "compile": "`compile()`", "error": '"error"', "alone": '"error", `alone()`', "jax": "`lockstep.jax.watch()`"}
_LEGEND = """# Incidents
Each program stands for a public report (its first lines name it), written before any tool had run it; a hang is cut after {cut:.0f} s
without a sign of life. *bare*: PyTorch {torch} as it is; `DETAIL`: with `TORCH_DISTRIBUTED_DEBUG=DETAIL`; *guard collectives*: PyTorch's;
the rest are lockstep's. Made by `scripts/incidents --write` ({machine}).

If outcomes differ between numbers of ranks (2 and 3, some programs 4), they are listed side by side. The time of a refusal is the
longest from the last step that a rank begins to the last rank's error; 0.3 s of it prove that a wait cannot end. The report names
**R** the rank that differs from the others, **G** the process group or module, **L** all lines that differ. *lacks*: that release
of torch does not have what the program needs.
"""
_JAX_LEGEND = """
## With JAX {jax}
Wrong pairings, on CPU with gloo; *bare*: JAX as it is. On a GPU XLA waits up to 24 hours in a compile for a process that has lowered
another computation (marin 9042), which a CPU's compiles do not. *hangs*: so does at least one process, whatever others have said.
Left alone on 2 processes, JAX 0.10.2 ends block_sizes after 101 s ("task 1 heartbeat timeout"; gloo had ended that process with "received
data size doesn't match expected size") and profiles_alone after 300 s ("barrier timed out"): neither names a line or a computation.
"""


def run_json(program, outcome, fault):
    """What is kept of a run: no text, which has addresses and paths."""
    kept = {key: value for key, value in outcome.as_json().items() if key not in ("text", "values")}
    return {"class": program.kind, "title": program.title, **kept, "of_lines": len(program.lines),
            "states": [word for word, is_stated in (("rank", program.odd is not None), ("group", bool(program.named))) if is_stated],
            "fault": fault}


def sums(runs):
    """(class, tool, number of runs, how many had which outcome, seconds to the verdict of those refused)."""
    for kind in CLASSES:
        for tool in _TOOLS:
            of = [run for run in runs if run["tool"] == tool and run["class"] == kind]
            if of:
                words = [run["outcome"] for run in of]
                yield kind, tool, len(of), {word: words.count(word) for word in sorted(set(words))}, [
                    run["seconds"] for run in of if run["seconds"] is not None and run["outcome"] == "refused"]


def sum_text(counts, seconds):
    return ", ".join(f"{count} {word}" for word, count in counts.items()) + (
        f"; median {statistics.median(seconds):.2f} s to the verdict" if seconds else "")


def _cell(run):
    if run is None:
        return ""
    named = [("R", "rank" in run["states"] and run["who"]), ("G", "group" in run["states"] and run["named"]),
             ("L", run["lines"] == run["of_lines"] > 0)]
    letters = "".join(letter for letter, is_named in named if is_named)
    return run["outcome"] + (f" {letters}" if letters and run["outcome"] != "as if well" else "") + (
        " **not as stated**" if run["fault"] else "")


def _cells(runs):
    """Of one program and tool, by number of ranks; what is alike stands once, with the longest time to the verdict."""
    seconds = [run["seconds"] for run in runs if run["seconds"] is not None and run["outcome"] == "refused"]
    return "; ".join(dict.fromkeys(map(_cell, runs))) + (f" {max(seconds):.1f} s" if seconds else "")


def page(documents, cut):
    """`documents`: as document() writes them, of each framework that of the newest release first."""
    first, *others = (each for each in documents if "torch" in each)
    out = [_LEGEND.format(torch=first["torch"], machine=first["machine"], cut=cut), *_sum_table(first["runs"])]
    for kind in CLASSES:
        if any(run["class"] == kind for run in first["runs"]):
            out += [f"\n## {_TITLES[kind]}", *_table(kind, first["runs"])]
    for each in documents:
        if "jax" in each:
            out += [_JAX_LEGEND.format(jax=each["jax"]), *_sum_table(each["runs"]), "", *_table("pairing", each["runs"])]
    for other in others:
        out += [f"\n## With PyTorch {other['torch']}", *_sum_table(other["runs"]), ""]
        faults = {}
        for run in other["runs"]:
            if run["fault"]:
                faults.setdefault((run["program"], run["fault"]), []).append(f"{_TOOLS[run['tool']]} on {run['size']}")
        out += [f"- {name} ({', '.join(where)} ranks): {fault}" for (name, fault), where in faults.items()]
    return "\n".join(out) + "\n"


def _table(kind, runs):
    of = [run for run in runs if run["class"] == kind]
    tools = [tool for tool in _TOOLS if any(run["tool"] == tool for run in of)]
    names = list(dict.fromkeys(run["program"] for run in of))
    well = [name for name in names if all(run["outcome"] == "as if well" for run in of if run["program"] == name)]
    shown = [name for name in names if name not in well]
    if shown:
        yield "| program | " + " | ".join(_TOOLS[tool] for tool in tools) + " |"
        yield "|---|" + "---|" * len(tools)
    for name in shown:
        yield f"| [{name}]({kind}/{name}.py) | " + " | ".join(
            _cells([run for run in of if run["program"] == name and run["tool"] == tool]) for tool in tools) + " |"
    if well:
        yield f"\nAs if well with each, on each number of ranks: {', '.join(well)}."


def _sum_table(runs):
    return ["| class | tool | runs | outcomes |\n|---|---|---|---|",
            *(f"| {_TITLES[kind].lower()} | {_TOOLS[tool]} | {number} | {sum_text(counts, seconds)} |"
              for kind, tool, number, counts, seconds in sums(runs))]


def release_of(document):
    """For sorting: the framework, and its release as numbers."""
    framework = next(each for each in FRAMEWORKS if each in document)
    return framework, [int(part) for part in document[framework].split(".")]


def document(runs, framework, release, machine):
    """A run a line."""
    return (f'{{"format": "lockstep.incidents/1", "{framework}": {json.dumps(release)}, "machine": {json.dumps(machine)}, "runs": [\n'
            + ",\n".join(json.dumps(run) for run in runs) + "\n]}\n")
