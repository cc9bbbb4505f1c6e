#!/usr/bin/python3
"""The page that `lockstep explain DIR --report` makes of a record, as a file in a browser.
usage: explained_page_test.py LOCKSTEP RECORD_SCENES [SHOTS]"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../coordinator"))
from browser import Browser

LOCKSTEP, SCENES = sys.argv[1:3]
SHOTS = sys.argv[3] if len(sys.argv) > 3 else None
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class ExplainedPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="lockstep-explained-")
        subprocess.run([SCENES, cls.directory], check=True)
        cls.browser = Browser(CHROMIUM)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        shutil.rmtree(cls.directory)

    def page(self, scene, width=1280):
        file = f"{self.directory}/{scene}.html"
        subprocess.run([LOCKSTEP, "explain", f"{self.directory}/{scene}", "--report", file],
                       check=True, stdout=subprocess.DEVNULL)
        self.browser.screen(width, 900)
        self.browser.open(f"file://{file}")
        if SHOTS:
            self.browser.shot(f"{SHOTS}/explained-{scene}-{width}.png")
        self.assertEqual(self.browser.problems, [])
        self.assertEqual([url for url in self.browser.requests
                          if not url.startswith(("file:", "data:"))], [])

    def text(self, selector):
        return self.browser.ask(f"document.querySelector('{selector}').textContent")

    def test_divergence(self):
        for width in (360, 1280):
            self.page("diverged", width)
            self.assertLessEqual(self.browser.ask("document.documentElement.scrollWidth"), width)
        self.assertIn("DIVERGED", self.text("#verdict"))
        self.assertIn("BRANCH_DIVERGENCE in call 3 of step", self.text("#sentence"))
        self.assertIn("step.cpp:41", self.text("#sentence"))
        self.assertIn("first call", self.text("#recompiles"))
        self.assertIn("tokens.size(0) is 8, was 4 in call 0", self.text("#recompiles"))
        self.assertIn("ranks 0-3 (4)", self.text("#calls"))
        self.assertIn("same_graph", self.text("#configuration"))
        self.assertIn("nothing here changes", self.text("#connection"))
        self.browser.ask("document.getElementById('compare').requestSubmit()")
        self.assertTrue(self.browser.wait_for(
            "document.querySelector('#difference .lines') !== null"))

    def test_rank_whose_record_ends(self):
        self.page("lost")
        self.assertIn("LOST", self.text("#verdict"))
        self.assertIn("RANK_LOST in call 2 of step", self.text("#sentence"))
        self.assertIn("call 1 of step", self.text("#findings"), "what rank 1 did last")

    def test_a_report_that_cannot_be_written_leaves_nothing(self):
        file = f"{self.directory}/nowhere/page.html"
        ran = subprocess.run([LOCKSTEP, "explain", f"{self.directory}/diverged", "--report", file],
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 7)
        self.assertIn("nowhere/page.html", ran.stderr)
        self.assertFalse(os.path.exists(os.path.dirname(file)))


if __name__ == "__main__":
    if not CHROMIUM:
        print("SKIPPED: there is no chromium here; scripts/setup installs it.")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v"])
