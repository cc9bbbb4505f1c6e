"""The results of scripts/dashboard as text and as one page that loads nothing from elsewhere."""
import html as escaping
import os
import pathlib
import tempfile

from dashboard_history import ROUNDS

COLUMNS = ("workload", "passes", "step", "speed-up over eager (processor time)", "speed-up over Inductor (same)", "compiling (again, cached)",
           "Inductor's compiling", "compiles", "peak memory, eager's")
STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --dim: #667; --line: #d8dae0; --back: #fff; --good: #1a7f4b; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ec; --dim: #99a; --line: #3a3d45; --back: #15171b; --good: #5fd39a;
  --bad: #ff8a80; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 2rem auto; max-width: 82rem;
  padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p { margin: .3rem 0; } .dim, small { color: var(--dim); } .good { color: var(--good); } .bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; font-size: .85rem; color: var(--dim); }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: middle; }
td { white-space: nowrap; }
.wide { overflow-x: auto; } svg { display: block; } polyline { fill: none; stroke: currentColor; stroke-width: 1.5; }
polygon { fill: currentColor; opacity: .15; }
"""


def seconds(value):
    if value is None:
        return "–"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def mebibytes(value):
    return f"{value / 2 ** 20:,.0f} MiB"


def ratio(side):
    if not side:
        return "–"
    middle, low, high = side["speedup"]
    return f"{middle:.2f} [{low:.2f}, {high:.2f}] ({side['cpu_speedup'][0]:.2f})"


def cells(row):
    """The row of a workload, as texts under COLUMNS."""
    sides = row["sides"]
    ours, eager, inductor = (sides.get(side) for side in ("lockstep", "eager", "inductor"))
    out = [row["workload"], "no" if row["failure"] else "yes"]
    if not ours:
        return out + ["–"] * (len(COLUMNS) - len(out))
    memory = mebibytes(ours["peak_bytes"]) + (f", {mebibytes(eager['peak_bytes'])}" if eager else "")
    compiling = seconds(ours["compile_s"])
    if ours["warm_compile_s"] is not None:
        compiling += f" ({seconds(ours['warm_compile_s'])})"
    return out + [seconds(ours["step_s"][0]), ratio(eager), ratio(inductor),
                  compiling, seconds(inductor["compile_s"] if inductor else None), str(ours["compiles"]), memory]


def title(context):
    peer = f"PyTorch {context['torch']}" if context["torch"] else "PyTorch not installed"
    size = "" if context["size"] == "full" else " Tiny sizes: no figures."
    return (f"{context['at']} UTC, commit {context['commit']}, {context['machine']}, load {context['load']:.1f} when it began, "
            f"{peer}, threads of a rank: {context['threads']}, {context['rounds']} rounds of {context['steps']} steps.{size}")


def interval_words(rounds):
    return "with its 95 % interval" if rounds >= ROUNDS else "from the least to the greatest"


def ranks_of(result):
    return sorted({row["ranks"] for row in result["rows"]})


def nothing_slower(result):
    if result["context"]["rounds"] < ROUNDS:
        return f"Not compared, with fewer than {ROUNDS} rounds."
    return "Nothing is slower than its interval allows."


def slower_text(result):
    return [f"slower: {sentence}" for sentence in result["slower"]] or [nothing_slower(result)]


def text(result):
    out = [title(result["context"]), ""]
    for ranks in ranks_of(result):
        out += [f"n={ranks}", "", "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        out += ["| " + " | ".join(cells(row)) + " |" for row in result["rows"] if row["ranks"] == ranks]
        out.append("")
    return "\n".join(out + slower_text(result))


def sparkline(runs, width=150, height=28):
    """Speed-ups over eager, or the inverse of a step's seconds, with their intervals; the last run is on the right."""
    points = []
    for run in runs:
        of = run["speedup"] or [1 / part for part in (run["step_s"][0], run["step_s"][2], run["step_s"][1])]
        points.append((*of, run["commit"]))
    if len(points) < 2:
        return "<small>first run</small>"
    least, most = min(low for _, low, _, _ in points), max(high for _, _, high, _ in points)
    span = (most - least) or 1.0
    places = [2 + i * (width - 4) / (len(points) - 1) for i in range(len(points))]

    def height_of(value):
        return height - 2 - (value - least) / span * (height - 4)
    band = [f"{x:.1f},{height_of(high):.1f}" for x, (_, _, high, _) in zip(places, points)]
    band += [f"{x:.1f},{height_of(low):.1f}" for x, (_, low, _, _) in reversed(list(zip(places, points)))]
    line = " ".join(f"{x:.1f},{height_of(middle):.1f}" for x, (middle, _, _, _) in zip(places, points))
    words = escaping.escape(f"{len(points)} runs, from {points[0][0]:.3g} at {points[0][3]} to {points[-1][0]:.3g} at "
                            f"{points[-1][3]}")
    return (f'<svg width="{width}" height="{height}" role="img"><title>{words}</title>'
            f'<polygon points="{" ".join(band)}"/><polyline points="{line}"/></svg>')


def table(result, past, ranks):
    head = "".join(f"<th>{escaping.escape(name)}</th>" for name in (*COLUMNS, "over runs"))
    rows = []
    for row in (row for row in result["rows"] if row["ranks"] == ranks):
        first, passes, *others = [escaping.escape(cell) for cell in cells(row)]
        runs = past.get((row["workload"], ranks, "eager")) or past.get((row["workload"], ranks, "lockstep")) or []
        passed = f'<td class="{"bad" if row["failure"] else "good"}" title="{escaping.escape(row["failure"])}">{passes}</td>'
        rows.append(f"<tr><td>{first}</td>{passed}" + "".join(f"<td>{cell}</td>" for cell in others)
                    + f"<td>{sparkline(runs)}</td></tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def html(result, past):
    slower = [f'<p class="bad">{escaping.escape(sentence)}</p>' for sentence in result["slower"]]
    slower = slower or [f'<p class="dim">{nothing_slower(result)}</p>']
    tables = [f"<h2>{ranks} {'rank' if ranks == 1 else 'ranks'}</h2>{table(result, past, ranks)}" for ranks in ranks_of(result)]
    return ("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>lockstep: training steps</title>"
            f"<meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>"
            "<h1>lockstep: training steps of whole models</h1>"
            f'<p class="dim">{escaping.escape(title(result["context"]))}</p>'
            f'<p class="dim">A speed-up is the median over rounds, {interval_words(result["context"]["rounds"])}; above 1 '
            'lockstep is faster.</p>'
            f"<h2>Since the run before</h2>{''.join(slower)}{''.join(tables)}</body></html>\n")


def write(file, content):
    """The whole file or, where this is cut short, the one before."""
    file = pathlib.Path(file)
    handle, part = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w") as out:
            out.write(content)
        os.chmod(part, 0o644)
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise
