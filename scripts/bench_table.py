#!/usr/bin/env python3
"""Prints the table of scripts/bench from its folder of JSON files, as Markdown.

usage: bench_table.py DIRECTORY
"""
import json
import pathlib
import statistics
import sys

# Targets, in the unit that the benchmark reports.
TARGETS = {"LookupAndVote/1/32": 300, "HoldRelations": 200, "RecordGuards/5000": 1000,
           "AssertASum/1000": 10000, "DecideABranch/by_range": 2000,
           "DecideABranch/by_fact": 2000, "MakeAGuard/manual_time": 2000,
           "BM_EveryRankDifferent/iterations:1/real_time": 30,
           "BM_EveryRankDifferentWithinBounds/iterations:1/real_time": 30,
           "BM_SixteenClassesDrawn/real_time": 1000, "BM_SixteenClasses/real_time": 1000,
           "BM_StartUp/real_time": 20}
EVENTS_PER_S = 1e6
COMPILE_TARGET = 1.2
DIVERGENCE_TARGET_MS = 1000
GPU_TARGET = 0.9  # of the bandwidth of a copy on the device


def load(path):
    return json.loads(path.read_text()) if path.exists() else None


def verdict(low, high, target):
    """A target is met or missed if the whole interval is on one side of it, else open."""
    if not target:
        return "", ""
    return f"{target:g}", "met" if high <= target else "MISSED" if low > target else "open"


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
                *verdict(b["ratio_low"], b["ratio_high"], b.get("target")))


def google(folder, name):
    for b in (load(folder / f"{name}.json") or {"benchmarks": []})["benchmarks"]:
        if b.get("aggregate_name") != "median":
            continue
        row(b["run_name"], "", f"{b['real_time']:.1f} {b['time_unit']}", "",
            *verdict(b["real_time"], b["real_time"],
                     TARGETS.get(b["run_name"])))


def events(folder):
    for b in (load(folder / "events.json") or {"benchmarks": []})["benchmarks"]:
        if b.get("aggregate_name") == "median":
            rate = b["events_per_s"]
            row(b["run_name"], "", f"{rate / 1e6:.2f} million events/s", "",
                f"{EVENTS_PER_S:g}", "met" if rate >= EVENTS_PER_S else "MISSED")


def compile_cost(folder):
    for state in ("cold", "warm"):
        if not (folder / f"compile_{state}_1.jsonl").exists():  # as in a folder of scripts/test-gpu
            continue
        runs = {n: [json.loads(line) for line in
                    (folder / f"compile_{state}_{n}.jsonl").read_text().splitlines()]
                for n in (1, 4)}
        median = {(n, key): statistics.median(run[f"{key}_cpu_s"] for run in runs[n])
                  for n in runs for key in ("compiler", "tracing")}
        one, four = (median[n, "compiler"] + median[n, "tracing"] for n in (1, 4))
        ratios = sorted((b["compiler_cpu_s"] + b["tracing_cpu_s"]) /
                        (a["compiler_cpu_s"] + a["tracing_cpu_s"] or float("nan"))
                        for a, b in zip(runs[1], runs[4]))
        ratio = statistics.median(ratios)
        row(f"compile {state}, n=4 against n=1 (of it tracing {median[4, 'tracing']:.3f} and "
            f"{median[1, 'tracing']:.3f} s)", f"{one:.3f} s", f"{four:.3f} s",
            f"{ratio:.2f} (runs {ratios[0]:.2f} to {ratios[-1]:.2f})",
            *verdict(ratios[0], ratios[-1], COMPILE_TARGET if state == "cold" else None))


def gpu(folder):
    """Kernels against a copy on the same device, launches and runs against bare launches, steps against PyTorch's."""
    result = load(folder / "gpu.json") or {"context": {}, "benchmarks": []}
    if result["context"].get("figures"):
        print(f"| gpu_bench: figures {result['context']['figures']} | | | | | |")
        return
    for b in result["benchmarks"]:
        name = b["name"].split("/")[0]
        if b.get("error_occurred"):
            row(f"gpu {name}", "", b["error_message"], "", "", "")
        elif "fraction" in b:
            target = GPU_TARGET if "copy_GB/s" in b else None
            met = "" if target is None else "met" if b["fraction_low"] >= target else (
                "MISSED" if b["fraction_high"] < target else "open")
            row(f"gpu {name}, floor over ours", f"{b['floor_us']:.1f} us", f"{b['real_time']:.1f} us",
                f"{b['fraction']:.3f} [{b['fraction_low']:.3f}, {b['fraction_high']:.3f}]", target or "", met)
        else:
            row(f"gpu {name}", "", f"{b['real_time']:.1f} {b['time_unit']}", "", "", "")
    for b in (load(folder / "gpu_torch.json") or {"benchmarks": []})["benchmarks"]:
        for way in ("eager", "compiled"):
            if f"{way}_us" in b:
                row(f"gpu {b['name']}, PyTorch {way}", f"{b[f'{way}_us']:.0f} us", f"{b['ours_us']:.0f} us",
                    f"{b[f'ours_over_{way}']:.3f}", "", "")


def main():
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.glob("vote_*.json"))[:1]:
        context = load(path)["context"]
        print(f"{context['cpu']}, {context['cores']} cores, load {context['load']:g} when it began\n")
    print("| what | floor | lockstep | ratio [95 % interval] | target | |\n|---|---|---|---|---|---|")
    pairs(folder, "vote_*.json")
    pairs(folder, "exchange_*.json")
    pairs(folder, "traced_*.json")
    pairs(folder, "counts_*.json")
    pairs(folder, "packed_*.json")
    pairs(folder, "experts_*.json")
    pairs(folder, "coordinator_*.json")
    for path in sorted(folder.glob("prefetch_*.json")):
        result = load(path)
        for b in result["benchmarks"]:
            row(f"{b['name']}, n={result['context']['ranks']}", "",
                f"{b['real_time']:.2f} us (p90 {b['p90']:.2f})", "",
                *verdict(b["real_time"], b["real_time"], b.get("target")))
    google(folder, "lookup")
    google(folder, "shapes")
    google(folder, "program")
    google(folder, "simulate")
    events(folder)
    for path in sorted(folder.glob("divergence_*.json")):
        for b in load(path)["benchmarks"]:
            if b.get("aggregate_name") == "median":
                row(f"divergence named, {b['nodes']:.0f} nodes, n={b['ranks']:.0f}", "",
                    f"{b['real_time']:.0f} ms", "",
                    *verdict(b["real_time"], b["real_time"], DIVERGENCE_TARGET_MS))
    compile_cost(folder)
    gpu(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: bench_table.py DIRECTORY")
    main()
