#!/usr/bin/env python3
"""scripts/dashboard apart from its measurements: intervals, the history, the page, arguments.

usage: dashboard_test.py
"""
import html.parser
import itertools
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "scripts/dashboard"
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import dashboard_history as history  # noqa: E402
import dashboard_page as page  # noqa: E402


def result(speedup, commit="abc", machine="a machine", step=(0.1, 0.09, 0.11), failure=""):
    side = {"step_s": list(step), "cpu_s": 0.1, "compiles": 1, "compile_s": 2.0, "warm_compile_s": 0.1, "peak_bytes": 1e8,
            "fallbacks": 0, "losses": [1.0]}
    sides = {"lockstep": side}
    if speedup:
        sides["eager"] = {**side, "speedup": list(speedup), "cpu_speedup": list(speedup)}
    return {"context": {"at": "2026-01-01 00:00", "commit": commit, "machine": machine, "load": 0.5, "torch": "2", "size": "full",
                        "threads": 1, "rounds": 6, "steps": 5},
            "rows": [{"workload": "experts", "ranks": 2, "failure": failure, "sides": {} if failure else sides}], "slower": []}


class Intervals(unittest.TestCase):
    def test_hold_the_median_of_95_in_100_samples(self):
        """All samples of n values, each above or below the median, as the binomial distribution has them."""
        for n in range(6, 13):
            held = 0
            for above in itertools.product((-1, 1), repeat=n):
                _, low, high = history.interval([sign * (i + 1) for i, sign in enumerate(above)])
                held += low <= 0 <= high
            self.assertGreaterEqual(held / 2 ** n, 0.95, n)
        self.assertEqual(history.interval(range(9)), [4, 1, 7])  # the narrowest: 7 of 9 values

    def test_of_few_values_reach_from_the_least_to_the_greatest(self):
        self.assertEqual(history.interval([3.0, 1.0]), [2.0, 1.0, 3.0])
        self.assertEqual(history.interval([5.0]), [5.0, 5.0, 5.0])


class Histories(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "new" / "history.sqlite"

    def slower(self, before, now):
        known = history.History(self.file)
        known.add(before)
        return known.slower(now)

    def test_name_what_is_slower_than_its_interval_allows(self):
        found = self.slower(result((2.0, 1.9, 2.1)), result((1.7, 1.6, 1.8)))
        self.assertEqual(found, ["experts on 2 ranks: 1.70 [1.60, 1.80] times as fast as eager, at abc 2.00 [1.90, 2.10]"])

    def test_say_nothing_where_intervals_overlap(self):
        self.assertEqual(self.slower(result((2.0, 1.9, 2.1)), result((1.8, 1.7, 1.95))), [])

    def test_say_nothing_of_other_machines(self):
        self.assertEqual(self.slower(result((2.0, 1.9, 2.1)), result((1.7, 1.6, 1.8), machine="another")), [])

    def test_do_not_compare_runs_of_few_rounds(self):
        for few in range(2):
            runs = result((2.0, 1.9, 2.1)), result((1.7, 1.6, 1.8))
            runs[few]["context"]["rounds"] = 5
            self.file = self.file.with_name(f"history{few}")
            self.assertEqual(self.slower(*runs), [])

    def test_compare_seconds_where_no_peer_was_measured(self):
        found = self.slower(result(None), result(None, step=(0.2, 0.19, 0.21)))
        self.assertEqual(found, ["experts on 2 ranks: a step takes 0.2 [0.19, 0.21] s, at abc 0.1 [0.09, 0.11] s"])

    def test_leave_failed_rows_out_of_comparisons(self):
        known = history.History(self.file)
        known.add(result((2.0, 1.9, 2.1)))
        known.add(result(None, failure="the losses differ"))
        self.assertEqual(len(known.past(result(None))["experts", 2, "eager"]), 1)
        self.assertEqual(known.slower(result((1.7, 1.6, 1.8)))[0][:18], "experts on 2 ranks")

    def test_of_another_format_are_refused(self):
        history.History(self.file)
        with sqlite3.connect(self.file) as base:
            base.execute("PRAGMA user_version = 7")
        self.assertRaises(history.NotAHistory, history.History, self.file)


class Page(unittest.TestCase):
    def test_is_whole_and_loads_nothing(self):
        runs = [result((2.0, 1.9, 2.1)), result((1.0, 0.9, 1.1), commit="def")]
        with tempfile.TemporaryDirectory() as folder:
            known = history.History(pathlib.Path(folder) / "h")
            for run in runs:
                run["slower"] = known.slower(run)
                known.add(run)
            made = page.html(runs[-1], known.past(runs[-1]))
        opened = []

        class Reader(html.parser.HTMLParser):
            def handle_starttag(self, tag, attrs):
                opened.append(tag)
                names = [name for name, _ in attrs]
                assert not {"src", "href"} & set(names), (tag, names)

            def handle_endtag(self, tag):
                while opened.pop() != tag:
                    pass
        Reader().feed(made)
        self.assertEqual(opened, [])
        for part in ("<polyline", "2 runs, from 2 at abc to 1 at def", "1.00 [0.90, 1.10]", 'class="bad">experts on 2 ranks: 1.00'):
            self.assertIn(part, made)
        self.assertNotIn("://", made)

    def test_says_why_a_workload_failed(self):
        self.assertIn('title="5 &lt; 6"', page.html(result(None, failure="5 < 6"), {}))

    def test_stays_as_it_was_if_it_cannot_be_written_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "page.html"
            page.write(file, "before")
            self.assertRaises(TypeError, page.write, file, None)
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ["page.html"])
            self.assertEqual(file.read_text(), "before")


class Arguments(unittest.TestCase):
    def test_that_are_wrong_end_with_2_and_one_sentence(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"no database, but long enough for a header of one" * 40)
            file.flush()
            for wrong, words in ((["--ranks", "3"], "'3' is no number of ranks"), (["--workloads", "x"], "'x' is no workload"),
                                 (["--rounds", "0"], "'0' is no number"), (["--so"], "unrecognized arguments: --so"),
                                 (["--history", file.name], "file is not a database")):
                done = subprocess.run([DASHBOARD, *wrong], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertIn(words, done.stderr)

    def test_interrupted_it_writes_nothing(self):
        if not (ROOT / "build/release/bin/lockstep_suite").exists():
            self.skipTest("SKIPPED: build/release has no lockstep_suite")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            job = subprocess.Popen([DASHBOARD, "--no-build", "--workloads", "experts", "--ranks", "1", "--page", folder / "page.html",
                                    "--history", folder / "history"], stderr=subprocess.PIPE, text=True)
            with job.stderr:
                while "losses in f64" not in job.stderr.readline():
                    self.assertIsNone(job.poll())
                job.send_signal(signal.SIGINT)
                self.assertIn("nothing was written", job.stderr.read())
            self.assertEqual(job.wait(), 130)
            self.assertEqual([path.name for path in folder.iterdir()], ["history"])
            self.assertEqual(sqlite3.connect(folder / "history").execute("SELECT count(*) FROM runs").fetchone(), (0,))


if __name__ == "__main__":
    unittest.main()
