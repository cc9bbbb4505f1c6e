"""The results of scripts/dashboard over time, in SQLite: one row of `runs` for each run, and one of `results` for each
workload, number of ranks and side in it. What compares runs compares like with like: the same machine, size, threads
and PyTorch."""
import math
import sqlite3

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, at TEXT NOT NULL, commit_id TEXT NOT NULL, machine TEXT NOT NULL, load REAL, torch TEXT NOT NULL,
  size TEXT NOT NULL, threads INTEGER NOT NULL, rounds INTEGER NOT NULL, steps INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS results (
  run INTEGER NOT NULL REFERENCES runs (id), workload TEXT NOT NULL, ranks INTEGER NOT NULL, side TEXT NOT NULL,
  failure TEXT NOT NULL, step_s REAL, step_low REAL, step_high REAL, cpu_s REAL,
  speedup REAL, speedup_low REAL, speedup_high REAL,  -- of lockstep over this side
  compiles INTEGER, compile_s REAL, warm_compile_s REAL, peak_bytes REAL, fallbacks INTEGER,
  PRIMARY KEY (run, workload, ranks, side));
"""
FORMAT = 1  # PRAGMA user_version
ROUNDS = 6  # the fewest that have a 95 % interval
ALIKE = ("machine", "size", "threads", "torch")


def interval(values):
    """[median, low, high]: the 95 % interval of the median by order statistics, which are those of the binomial
    distribution. Fewer values than 6 have no such interval; it then reaches from the least to the greatest."""
    ordered = sorted(values)
    n = len(ordered)
    outside, cut = 0.0, 0
    while cut < (n - 1) // 2:
        outside += 2 * math.comb(n, cut) / 2 ** n
        if outside > 0.05:
            break
        cut += 1
    cut = max(cut - 1, 0)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return [middle, ordered[cut], ordered[n - 1 - cut]]


def place(workload, ranks):
    return f"{workload} on {ranks} {'rank' if ranks == 1 else 'ranks'}"


class NotAHistory(Exception):
    """The file cannot be opened, or has another format."""


class History:
    """A history in this file, which is made if it is missing. Other processes may add to it, too."""

    def __init__(self, file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.base = sqlite3.connect(file, timeout=30)
            found = self.base.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            raise NotAHistory(f"{file}: {error}") from error
        if found not in (0, FORMAT):
            raise NotAHistory(f"{file} has format {found}; this program knows {FORMAT}")
        with self.base:
            self.base.executescript(SCHEMA)
            self.base.execute(f"PRAGMA user_version = {FORMAT}")

    def add(self, result):
        """Adds a run as a whole or, on an error, not at all."""
        context = result["context"]
        with self.base:
            run = self.base.execute(
                "INSERT INTO runs (at, commit_id, machine, load, torch, size, threads, rounds, steps) "
                "VALUES (:at, :commit, :machine, :load, :torch, :size, :threads, :rounds, :steps)", context).lastrowid
            for row in result["rows"]:
                for side, of in (row["sides"] or {"lockstep": {}}).items():
                    self.base.execute(
                        f"INSERT INTO results VALUES ({', '.join('?' * 17)})",
                        [run, row["workload"], row["ranks"], side, row["failure"], *of.get("step_s", [None] * 3),
                         of.get("cpu_s"), *of.get("speedup", [None] * 3), of.get("compiles"), of.get("compile_s"),
                         of.get("warm_compile_s"), of.get("peak_bytes"), of.get("fallbacks")])

    def past(self, result, most=40, rounds=1):
        """{(workload, ranks, side): [(commit, step_s, (speedup, low, high)), ..]}, from the oldest run that is like this
        one to the newest."""
        like = " AND ".join(f"{name} = :{name}" for name in ALIKE)
        rows = self.base.execute(
            f"SELECT workload, ranks, side, commit_id, step_s, speedup, speedup_low, speedup_high, step_low, step_high "
            f"FROM results JOIN runs ON runs.id = results.run WHERE {like} AND failure = '' AND rounds >= :rounds ORDER BY runs.id",
            {"rounds": rounds, **{name: result["context"][name] for name in ALIKE}}).fetchall()
        out = {}
        for workload, ranks, side, commit, step, *rest in rows:
            out.setdefault((workload, ranks, side), []).append(
                {"commit": commit, "step_s": [step, *rest[3:]], "speedup": rest[:3] if rest[0] is not None else None})
        return {key: runs[-most:] for key, runs in out.items()}

    def slower(self, result):
        """What is slower than in the last run like this one, one sentence for each. The speed-up over a side that was
        measured in turn with lockstep says so where there is one, because it does not depend on other work on the
        machine; else the seconds of a step do. Runs of fewer than ROUNDS rounds are not compared. To be called before
        add()."""
        past, out = self.past(result, rounds=ROUNDS), []
        if result["context"]["rounds"] < ROUNDS:
            return out
        for row in result["rows"]:
            sides = row["sides"]
            for side in [side for side in sides if side != "lockstep"] or list(sides):
                before = past.get((row["workload"], row["ranks"], side))
                if not before:
                    continue
                key = "speedup" if side != "lockstep" else "step_s"
                now, then = sides[side][key], before[-1][key]
                where = place(row["workload"], row["ranks"])
                if key == "speedup" and now[2] < then[1]:
                    out.append(f"{where}: {now[0]:.2f} [{now[1]:.2f}, {now[2]:.2f}] times as fast as {side}, at "
                               f"{before[-1]['commit']} {then[0]:.2f} [{then[1]:.2f}, {then[2]:.2f}]")
                if key == "step_s" and now[1] > then[2]:
                    out.append(f"{where}: a step takes {now[0]:.4g} [{now[1]:.4g}, {now[2]:.4g}] s, at "
                               f"{before[-1]['commit']} {then[0]:.4g} [{then[1]:.4g}, {then[2]:.4g}] s")
        return out
