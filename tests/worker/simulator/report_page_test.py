#!/usr/bin/python3
"""The page that `lockstep dryrun … --report` writes, in a headless Chromium.
usage: report_page_test.py LOCKSTEP RECORD_SCENES [SHOTS]"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../coordinator"))
from browser import Browser

LOCKSTEP, SCENES = sys.argv[1:3]
SHOTS = sys.argv[3] if len(sys.argv) > 3 else None
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EXAMPLES = os.path.join(HERE, "../../../examples/scenarios")
WARMED_UP = {"format": "lockstep.scenario/1", "world_size": 8, "generator": {"seed": 4, "calls": [
    {"frame": "train_step", "repeat": 40,
     "values": {"tokens": {"tensor": [{"uniform": [62, 66]}, 64], "dtype": "i64"},
                "rows": {"tensor": [{"uniform": [2, 40], "per": "call"}]}, "n": {"int": {"choice": [3, 4], "per": "call"}},
                "training": {"bool": True}},
     "instead": [{"first": 5, "values": {"tokens": {"tensor": [64, 64], "dtype": "i64"}, "rows": {"tensor": [8]}, "n": {"int": 3}}},
                 {"every": 10, "frame": "evaluate", "values": {"x": {"tensor": [16]}}}]}]}}
HOSTILE = "</script><img src=x onerror=alert(1)>"
TROUBLED = {"format": "lockstep.scenario/1", "world_size": 4, "calls": [
    {"frame": HOSTILE, "inputs": [{"ranks": "0-2", "values": {HOSTILE: {"tensor": [5, 10]}}},
                                  {"ranks": "3", "values": {HOSTILE: {"int": 1}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-2", "values": {}}]}]}


class ReportPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="lockstep-report-")
        subprocess.run([SCENES, cls.directory], check=True)
        cls.browser = Browser(CHROMIUM)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        shutil.rmtree(cls.directory)

    def write(self, name, scenario, *options):
        """The page of a scenario, or of a file or directory."""
        source = scenario
        if isinstance(scenario, dict):
            source = f"{self.directory}/{name}.json"
            with open(source, "w", encoding="utf-8") as file:
                json.dump(scenario, file)
        page = f"{self.directory}/{name}.html"
        subprocess.run([LOCKSTEP, "dryrun", source, "--report", page, *options], check=True,
                       stdout=subprocess.DEVNULL)
        return page

    def show(self, page, width=1280, dark=False):
        self.browser.screen(width, 900, dark=dark)
        self.browser.open(f"file://{page}")
        self.assertEqual(self.browser.problems, [])
        self.assertEqual([url for url in self.browser.requests
                          if not url.startswith(("file:", "data:"))], [])
        if SHOTS:
            name = os.path.basename(page)[:-5]
            self.browser.shot(f"{SHOTS}/report-{name}-{width}{'-dark' if dark else ''}.png")

    def text(self, selector):
        return self.browser.ask(f"document.querySelector('{selector}').textContent")

    def test_what_compiled_why_and_what_to_mark(self):
        page = self.write("warmed_up", WARMED_UP)
        for width, dark in ((1280, False), (360, False), (1280, True)):
            self.show(page, width, dark)
            self.assertLessEqual(self.browser.ask("document.documentElement.scrollWidth"), width)
        self.assertIn("3 compiles in 40 calls, no errors", self.text("#verdict"))
        self.assertIn("Without coordination ranks would part ways at call ", self.text("#sentence"))
        self.assertNotIn("Mark", self.text("#sentence"), "n varies, too, so marks save no compile")
        self.assertIn("this saves no compile here", self.text("#marks"))
        self.assertIn("call 5 of train_step made entry 1", self.text("#recompiles"))
        self.assertIn("Entry 0 does not fit ranks 0-7 (8)", self.text("#recompiles"))
        self.assertIn("the entry has 64", self.text("#recompiles"))
        self.assertIn("mark_dynamic(tokens, 0);", self.text("#marks"))
        self.assertIn("1 int became dynamic", self.text("#marks"))
        self.assertEqual(self.browser.ask("document.querySelectorAll('#outcomes svg .compiled').length"), 3)
        self.assertTrue(self.browser.ask("document.querySelector('#errors').classList.contains('empty')"))

    def test_tables_sort_and_filter_without_a_mouse(self):
        self.show(self.write("warmed_up", WARMED_UP))
        first = "document.querySelector('#dims tbody tr').textContent"
        self.browser.ask("document.querySelectorAll('#dims th button')[4].focus()")
        self.browser.ask("document.activeElement.click()")
        self.assertIn("rows.size(0)", self.browser.ask(first), "most values first")
        self.assertEqual(self.browser.ask("document.activeElement.closest('th').getAttribute('aria-sort')"), "descending")
        self.browser.ask("document.activeElement.click()")
        self.assertNotIn("rows.size(0)", self.browser.ask(first))
        self.browser.ask("""(() => { const box = document.querySelector('#calls input');
            box.value = 'evaluate'; box.dispatchEvent(new Event('input')); })()""")
        rows = self.browser.ask("[...document.querySelectorAll('#calls tbody tr')].map((row) => row.textContent)")
        self.assertEqual(len(rows), 4)
        self.assertTrue(all("evaluate" in row for row in rows))

    def test_errors_and_hostile_names_are_text(self):
        self.show(self.write("troubled", TROUBLED))
        self.assertIn("2 errors", self.text("#verdict"))
        self.assertIn("KIND_MISMATCH", self.text("#sentence"))
        self.assertIn("ABSENT_RANKS", self.text("#errors"))
        self.assertIn(HOSTILE, self.text("#errors"))
        self.assertEqual(self.browser.ask("document.images.length"), 0)

    def test_contrast(self):
        for dark in (False, True):
            for name, scenario in (("warmed_up", WARMED_UP), ("troubled", TROUBLED)):
                self.show(self.write(name, scenario), dark=dark)
                self.assertEqual(self.browser.ask(self.contrast()), [])

    @staticmethod
    def contrast():
        with open(os.path.join(HERE, "../../coordinator/page_test.py"), encoding="utf-8") as file:
            return file.read().split('CONTRAST = """')[1].split('"""')[0].replace("\\\\", "\\")

    def test_other_ways_waits_and_sweeps(self):
        page = self.write("swept", f"{EXAMPLES}/text_lengths.json", "--ranks", "32", "--network", "tcp",
                          "--sweep", "ranks=2..64")
        for width, dark in ((1280, False), (360, False), (1280, True)):
            self.show(page, width, dark)
            self.assertLessEqual(self.browser.ask("document.documentElement.scrollWidth"), width)
        self.assertEqual(self.browser.ask("document.querySelectorAll('#compare tbody tr').length"), 5)
        self.assertIn("upstream's way: why ranks part ways in call", self.text("#compare"))
        self.assertIn("tokens.size(1)", self.text("#compare"))
        self.assertRegex(self.text("#sentence"), r"Mark .* dynamic: the job then has 2 compiles instead of \d")
        self.assertEqual(self.browser.ask("document.querySelectorAll('#sweep tbody tr').length"), 6)
        self.assertEqual(self.browser.ask("document.querySelectorAll('#sweep svg').length"), 4)
        self.assertEqual(self.browser.ask("document.querySelectorAll('#waits svg .wait').length"), 32)
        self.assertEqual(self.browser.ask(self.contrast()), [])

    def test_record(self):
        self.show(self.write("record", f"{self.directory}/diverged"))
        self.assertIn("record", self.text("#connection"))
        self.assertIn("BRANCH_DIVERGENCE", self.text("#errors"))

    def test_large_runs_make_small_pages(self):
        page = self.write("large", f"{EXAMPLES}/moe_routing.json", "--ranks", "131072",
                          "--no-counterfactual")
        self.assertLess(os.path.getsize(page), 1 << 20)
        self.show(page)
        self.assertIn("131072", self.text("#facts"))

    def test_faults(self):
        self.show(self.write("faulty", f"{EXAMPLES}/faulty_ranks.json", "--ranks", "16"))
        self.assertIn("2 end the job", self.text("#sentence"))
        self.assertIn("RANK_LOST", self.text("#faults"))
        self.assertIn("ends with exit code 4", self.text("#faults"))

    def test_links_stay_and_no_file_is_another(self):
        place = os.path.join(self.directory, "links")
        os.mkdir(place)
        scenario, link, target = (os.path.join(place, name) for name in ("s.json", "link.html", "target.html"))
        with open(f"{EXAMPLES}/moe_routing.json", encoding="utf-8") as file:
            text = file.read()
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(text)
        os.symlink(target, link)
        with open(target, "w", encoding="utf-8") as file:
            file.write("old")
        run = lambda *options: subprocess.run([LOCKSTEP, "dryrun", scenario, *options], capture_output=True, text=True)
        self.assertEqual(run("--report", link).returncode, 0)
        self.assertTrue(os.path.islink(link))
        with open(target, encoding="utf-8") as file:
            self.assertTrue(file.read().startswith("<!doctype html>"))
        pipe = os.path.join(place, "pipe")
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run("--report", pipe).returncode, 0)
        self.assertTrue(reader.communicate(timeout=20)[0].startswith("<!doctype html>"))
        for options in (("--report", scenario), ("--network", "tcp", "--csv", link, "--trace", target)):
            ran = run(*options)
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertIn("are the same file", ran.stderr)
        with open(scenario, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)

    def test_a_report_that_cannot_be_written_leaves_nothing(self):
        file = f"{self.directory}/nowhere/page.html"
        ran = subprocess.run([LOCKSTEP, "dryrun", f"{EXAMPLES}/text_lengths.json", "--report", file],
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 7)
        self.assertEqual(ran.stdout, "")
        self.assertIn("nowhere/page.html", ran.stderr)

    def test_the_same_run_gives_the_same_bytes(self):
        pages = []
        for _ in range(2):
            with open(self.write("warmed_up", WARMED_UP), "rb") as file:
                pages.append(file.read())
        self.assertEqual(*pages)


if __name__ == "__main__":
    if not CHROMIUM:
        print("SKIPPED: there is no chromium here; scripts/setup installs it.")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v"])
