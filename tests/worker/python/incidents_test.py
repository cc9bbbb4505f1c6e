"""Programs after public reports (tests/worker/python/incidents): each bare, with what its framework has to find such faults, and
with lockstep; a table of what came of it, and whether lockstep's part is as each program states.

incidents_test.py [--json] [--resume FILE] [--tool NAME]... [CASE...]"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

from incidents_page import document, page, release_of, run_json, sum_text, sums
from incidents_program import FOLDER, FRAMEWORKS, programs
from incidents_run import CUT, OURS, TOOLS, Outcome, python_of, run


def tools_of(program):
    if program.framework == "jax":
        return ["bare", "jax"]
    if program.kind == "pairing":
        return ["bare", "detail", "guards", "watch", "compile"]
    if program.kind == "meaning":
        return ["bare", "detail", "guards", "watch", "compile"]
    return ["bare", "watch", "audit", "compile", "error", *(["alone"] if program.is_refused else [])]


def fault_of(program, outcome, bare):
    """What is not as stated, in words; None: all is."""
    if outcome.lacks:
        return f"{program.framework} lacks it: {outcome.lacks}"
    if outcome.tool not in OURS:
        return None
    well = not any(outcome.codes) and not outcome.hang
    if any(code is not None and code < 0 for code in outcome.codes):
        return f"a signal has ended a rank: {outcome.codes}"
    if program.kind == "pairing":
        if outcome.delivered:
            return "a value of operations that do not belong together was delivered"
        if outcome.hang:
            return "it hangs"
        if not all(outcome.codes):
            return f"ranks end with {outcome.codes}"
        if not set(outcome.verdicts) & set(program.verdicts):
            return f"the errors are {outcome.verdicts}"
        if outcome.lines < len(program.lines) or not outcome.named:
            return f"{outcome.lines} of {len(program.lines)} lines named, group and module {outcome.named}"
        if outcome.size > 2 and not outcome.who:
            return f"rank {program.odd} is not named"
        return None
    if outcome.tool == "error" and program.is_refused:
        return "it is not refused" if well or not outcome.verdicts else None
    if program.kind == "meaning" and outcome.tool == "compile" and outcome.verdicts == ["FrameMismatch"]:
        return None  # of functions that are called together
    if not well and not (outcome.tool == "audit" and bare is not None and any(bare.codes)):  # which changes nothing
        return f"it is disturbed: {outcome.codes}, {outcome.verdicts}"
    if bare is not None and not any(bare.codes) and outcome.values != bare.values:
        return f"the values are {outcome.values}, without {bare.values}"
    if program.kind == "meaning":
        return None if outcome.lines == len(program.lines) else f"{outcome.lines} of {len(program.lines)} lines told"
    return "it is not quiet" if "lockstep" in outcome.text else None


def release(text):
    if re.fullmatch(r"\d+\.\d+\.\d+", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is no release; write one as 2.11.0")
    return text


def kept_in(path):
    """Outcomes of an earlier run."""
    if path is None or not path.exists():
        return []
    return [Outcome(**{key: value for key, value in json.loads(line).items() if key not in ("outcome", "fault")})
            for line in path.read_text().splitlines()]


def cell(outcome):
    if outcome is None:
        return ""
    return outcome.word + ("" if outcome.seconds is None or outcome.word in ("as if well", "told") else f" {outcome.seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(prog="scripts/incidents", allow_abbrev=False, description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--json", action="store_true", help="one JSON document in place of the table")
    parser.add_argument("--tool", action="append", choices=sorted(TOOLS), help="only with this one; may be repeated")
    parser.add_argument("--ranks", type=int, action="append", help="only on so many ranks; may be repeated")
    parser.add_argument("--resume", type=pathlib.Path, metavar="FILE", help="outcomes are kept there, and what is there is not run again")
    parser.add_argument("--write", action="store_true",
                        help=f"writes the table into {FOLDER.name}/: results_*.json of the frameworks that were run, and README.md")
    parser.add_argument("--torch", type=release, metavar="VERSION", help="with this release of torch, in an environment of its own")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # what is given, and go
    given = parser.parse_args()
    known = programs()
    names = given.cases or [name for name in known if not given.torch or known[name].framework == "torch"]
    for name in names:
        if name not in known:
            parser.error(f"there is no program {name}; there are " + ", ".join(known))
    if given.check:
        return
    done = {(each.program, each.tool, each.size): each for each in kept_in(given.resume)}
    faults, outcomes, found, skipped = [], [], [], []
    for name in names:
        program = known[name]
        if python_of(program.framework) is None:
            skipped.append(name)
            print(f"SKIPPED {name}: {sys.executable} has no {program.framework}, and there is no build/{program.framework}: "
                  f"scripts/test --long {program.framework} makes it", file=sys.stderr, flush=True)
            continue
        for size in program.sizes:
            if given.ranks and size not in given.ranks:
                continue
            for tool in tools_of(program):
                if given.tool and tool not in given.tool:
                    continue
                outcome = done.get((name, tool, size))
                if outcome is None:
                    with tempfile.TemporaryDirectory() as folder:
                        outcome = done[name, tool, size] = run(program, tool, size, folder)
                    if given.resume is not None:
                        with open(given.resume, "a") as file:
                            print(json.dumps(outcome.as_json()), file=file)
                outcomes.append(outcome)
                fault = fault_of(program, outcome, done.get((name, "bare", size)))
                if fault is not None and not (given.torch and outcome.lacks):
                    faults.append(f"{name} on {size} ranks with {tool}: {fault}\n{outcome.text}")
                found.append((outcome, run_json(program, outcome, fault)))
                if not given.json:
                    print(f"{program.kind:8} {name:28} n = {size} {tool:8} {cell(outcome):24} {', '.join(outcome.verdicts)}"
                          f"{'' if fault is None else '  NOT AS STATED: ' + fault}", flush=True)
    if given.json:
        print(json.dumps({"format": "lockstep.incidents/1", "runs": [{**run, **outcome.as_json()} for outcome, run in found]}))
    for framework in FRAMEWORKS:
        runs = [run for outcome, run in found if known[outcome.program].framework == framework]
        for kind, tool, number, counts, seconds in [] if given.json else sums(runs):
            print(f"{framework:5} {kind:8} {tool:8} {number:4} runs: {sum_text(counts, seconds)}")
        if given.write and runs:
            write(framework, runs)
    for fault in faults:
        print(f"\nFAILED {fault}", file=sys.stderr)
    print(f"{len(outcomes) - len(faults)} passed, {len(faults)} failed" + (f", {len(skipped)} SKIPPED" if skipped else ""),
          file=sys.stderr if given.json else sys.stdout)
    sys.exit(1 if faults else 0)


def write(framework, runs):
    """Into the folder of the programs: the runs of a framework's release, and a page of those of all."""
    code = f"import importlib.metadata; print(importlib.metadata.version('{framework}'))"
    told = subprocess.run([python_of(framework), "-c", code], text=True, stdout=subprocess.PIPE, check=True).stdout
    found = told.strip().split("+")[0]
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    name = f"results_{found}.json" if framework == "torch" else f"results_{framework}_{found}.json"
    _replace(FOLDER / name, document(runs, framework, found, machine))
    documents = [json.loads(path.read_text()) for path in FOLDER.glob("results_*.json")]
    documents.sort(key=release_of, reverse=True)
    _replace(FOLDER / "README.md", page(documents, CUT))


def _replace(path, text):
    made = path.with_name(path.name + ".new")
    made.write_text(text)
    made.replace(path)


main()
