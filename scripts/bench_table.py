#!/usr/bin/env python3
"""Prints the table of scripts/bench from its folder of JSON files, as Markdown.

usage: bench_table.py DIRECTORY
"""
import json
import pathlib
import sys

LOOKUP_TARGET_NS = 300
COMPILE_TARGET = 1.2


def load(path):
    return json.loads(path.read_text()) if path.exists() else None


def verdict(value, target):
    if not target:
        return "", ""
    return f"{target:g}", "met" if value <= target else "MISSED"


def row(what, floor, ours, ratio, target, outcome):
    print(f"| {what} | {floor} | {ours} | {ratio} | {target} | {outcome} |")


def pairs(folder, pattern):
    for path in sorted(folder.glob(pattern), key=lambda p: (len(p.name), p.name)):
        result = load(path)
        floors = {b["name"][:-6]: b for b in result["benchmarks"] if b["name"].endswith("/floor")}
        for b in result["benchmarks"]:
            if "ratio" not in b:
                continue
            name = b["name"][: -len("/ours")]
            row(f"{name}, n={result['context']['ranks']}", f"{floors[name]['real_time']:.2f} us",
                f"{b['real_time']:.2f} us",
                f"{b['ratio']:.3f} [{b['ratio_low']:.3f}, {b['ratio_high']:.3f}]",
                *verdict(b["ratio"], b.get("target")))


def google(folder, name, target=None):
    for b in (load(folder / f"{name}.json") or {"benchmarks": []})["benchmarks"]:
        if b.get("aggregate_name") != "median":
            continue
        row(b["run_name"], "", f"{b['real_time']:.1f} {b['time_unit']}", "",
            *verdict(b["real_time"], target if b["run_name"].endswith("/1") else None))


def compile_cost(folder):
    for state in ("cold", "warm"):
        one, four = (load(folder / f"compile_{state}_{n}.json") for n in (1, 4))
        if not one or not four:
            continue
        cost = [r["compiler_cpu_s"] + r["tracing_cpu_s"] for r in (one, four)]
        ratio = cost[1] / cost[0] if cost[0] else float("inf")
        row(f"compile {state}, n=4 against n=1 (compiler {one['compiler_cpu_s']:.2f} and "
            f"{four['compiler_cpu_s']:.2f} s, tracing {one['tracing_cpu_s']:.3f} and "
            f"{four['tracing_cpu_s']:.3f} s)", f"{cost[0]:.3f} s", f"{cost[1]:.3f} s",
            f"{ratio:.2f}", *verdict(ratio, COMPILE_TARGET if state == "cold" else None))


def main():
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.glob("vote_*.json"))[:1]:
        context = load(path)["context"]
        print(f"{context['cpu']}, {context['cores']} cores, load {context['load']:g} when it began\n")
    print("| what | floor | lockstep | ratio [95 % interval] | target | |\n|---|---|---|---|---|---|")
    pairs(folder, "vote_*.json")
    pairs(folder, "traced_*.json")
    google(folder, "lookup", LOOKUP_TARGET_NS)
    google(folder, "program")
    compile_cost(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: bench_table.py DIRECTORY")
    main()
