#!/usr/bin/env python3
"""Prints the table of scripts/bench_upstream as Markdown and writes it as JSON.

usage: bench_upstream_table.py DIRECTORY OUT [SKIPPED...]
"""
import json
import math
import os
import pathlib
import statistics
import sys

TARGET = 100  # times faster than upstream, at 2 ranks and 1,000 sources


def samples(folder):
    """Returns microseconds by (way, ranks, sources), those of all rounds together."""
    out = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        if "way" in result:
            for sources, values in result["samples_us"].items():
                out.setdefault((result["way"], result["ranks"], int(sources)), []).extend(values)
            continue
        for b in result["benchmarks"]:
            name, _, sources = b["name"].removesuffix("/ours").partition("/")
            if "batches_us" in b and name in ("exchange", "exchange_mixed"):
                way = "ours" if name == "exchange" else "ours_mixed"
                key = (way, result["context"]["ranks"], int(sources))
                out.setdefault(key, []).extend(b["batches_us"])
    return out


def interval(values):
    """Returns the median and its 95 % interval from order statistics."""
    values = sorted(values)
    half = 0.98 * math.sqrt(len(values))
    at = lambda place: values[min(max(int(place), 0), len(values) - 1)]
    return statistics.median(values), at(len(values) / 2 - half), at(len(values) / 2 + half)


def text(figure):
    return f"{figure[0]:.0f} [{figure[1]:.0f}, {figure[2]:.0f}]"


def main():
    folder, out, skipped = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    figures = {key: interval(values) for key, values in samples(folder).items()}
    rows = []
    print("| ranks | sources | ours, us | ours, different lists, us | torch, us | mpi4py, us | torch/ours | mpi4py/ours |")
    print("|---|---|---|---|---|---|---|---|")
    for ranks, sources in sorted({key[1:] for key in figures}):
        row = {way: figures.get((way, ranks, sources)) for way in ("ours", "ours_mixed", "torch", "mpi4py")}
        if row["ours"] is None:
            print(f"bench_upstream_table: no figure of ours at {ranks} ranks.", file=sys.stderr)
            continue
        rows.append({"ranks": ranks, "sources": sources, **row})
        times = [f"{row[way][0] / row['ours'][0]:.0f}x" if row[way] else "" for way in ("torch", "mpi4py")]
        cells = [text(row[way]) if row[way] else "SKIPPED" if way in skipped else "failed"
                 for way in ("ours", "ours_mixed", "torch", "mpi4py")]
        print("| " + " | ".join([str(ranks), str(sources), *cells, *times]) + " |")
        if (ranks, sources) == (2, 1000) and row["torch"]:
            met = row["torch"][1] / row["ours"][2] >= TARGET
            print(f"target {TARGET}x at 2 ranks and 1,000 sources: {'met' if met else 'open or missed'}",
                  file=sys.stderr)
    for way in skipped:
        print(f"\nSKIPPED: {way} is not installed.")
    out.write_text(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0], "skipped": skipped,
                               "median_low_high_us": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
