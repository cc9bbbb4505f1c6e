"""The simplifications of simplifications.txt by lockstep and by SymPy, in one run.

usage: sympy_simplify.py SIMPLIFY_BENCH FILE [--out JSON]

SymPy gets symbols that are integers and positive (sizes) or not negative (counts), which is what it
can be told; it has done a simplification when its result is the expected one for SymPy itself too.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench")
    parser.add_argument("file")
    parser.add_argument("--out")
    options = parser.parse_args()
    try:
        import sympy
    except ImportError:
        print(f"SKIPPED: SymPy is not installed for {sys.executable}.", file=sys.stderr)
        return 0

    names = {f"s{i}": sympy.Symbol(f"s{i}", integer=True, positive=True) for i in range(3)}
    names |= {f"u{i}": sympy.Symbol(f"u{i}", integer=True, nonnegative=True) for i in range(2)}
    names |= {"Mod": sympy.Mod, "Min": sympy.Min, "Max": sympy.Max}

    def read(text):
        if "==" in text or "!=" in text:
            make = sympy.Eq if "==" in text else sympy.Ne
            left, right = text.split("==" if "==" in text else "!=")
            return make(eval(left, {}, names), eval(right, {}, names))
        return sympy.sympify(eval(text, {}, names))

    def simplified(text):
        return sympy.sympify(sympy.simplify(read(text)))

    def same(result, expected):
        want = read(expected)
        return result == want or (not want.is_Boolean and not result.is_Boolean
                                  and sympy.simplify(result - want) == 0)

    def median_us(text):
        times = []
        for _ in range(5):
            sympy.core.cache.clear_cache()  # every trace starts with other sizes
            start = time.perf_counter()
            simplified(text)
            times.append((time.perf_counter() - start) * 1e6)
        return statistics.median(times)

    run = subprocess.run([options.bench, options.file], capture_output=True, text=True, check=True)
    rows, failed = [], False
    print("| written | lockstep | us | SymPy | us | SymPy/lockstep |\n|---|---|---|---|---|---|")
    for line in run.stdout.splitlines():
        row = json.loads(line)
        failed |= row["came_to"] != row["expected"]
        result = simplified(row["written"])
        row |= {"sympy": str(result), "sympy_us": median_us(row["written"]),
                "sympy_does_it": bool(same(result, row["expected"]))}
        rows.append(row)
        print(f"| `{row['written']}` | `{row['came_to']}` | {row['us']:.1f} | "
              f"{'yes' if row['sympy_does_it'] else 'no: `' + str(result) + '`'} | "
              f"{row['sympy_us']:.0f} | {row['sympy_us'] / row['us']:.0f}x |")
    ratios = sorted(row["sympy_us"] / row["us"] for row in rows)
    print(f"SymPy {sympy.__version__}: median {statistics.median(ratios):.0f}x lockstep's time, "
          f"{sum(not row['sympy_does_it'] for row in rows)} of {len(rows)} not done")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as out:
            json.dump({"sympy": sympy.__version__, "rows": rows}, out, indent=1)
    if failed:
        print("sympy_simplify.py: lockstep did not come to what the file expects.", file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
