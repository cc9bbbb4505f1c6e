#!/usr/bin/python3
"""`lockstep dryrun RECORD_DIR --ranks N` from outside. usage: drawn_record_test.py LOCKSTEP RECORD_SCENES"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP, SCENES = sys.argv[1:3]


def run(*arguments):
    return subprocess.run([LOCKSTEP, "dryrun", *arguments], capture_output=True, text=True, timeout=120)


class DrawnRecordTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="lockstep-drawn-")
        subprocess.run([SCENES, cls.folder], check=True)
        cls.record = f"{cls.folder}/wobbling"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def result(self, *options):
        ran = run(self.record, "--json", *options)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return json.loads(ran.stdout)

    def refused(self, *arguments, says):
        ran = run(*arguments)
        self.assertEqual((ran.returncode, ran.stdout), (2, ""), arguments)
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        self.assertIn(says, ran.stderr)

    def test_any_number_of_ranks_answers_with_one_document(self):
        recorded = self.result()
        self.assertNotIn("drawn", recorded)
        self.assertEqual(recorded["world_size"], 4)
        for ranks in (1, 3, 4, 64, 5000):
            result = self.result("--ranks", str(ranks))
            self.assertEqual(list(result), ["format", "world_size", "calls", "totals", "uncoordinated", "drawn",
                                            "advice"])
            self.assertEqual(result["world_size"], ranks)
            self.assertEqual(len(result["calls"]), len(recorded["calls"]))
            self.assertEqual(result["drawn"], {
                "ranks": 4, "seed": 0, "inputs": 12, "calls_as_recorded": 0, "calls_left_out": 0,
                "conditions": {"known": result["totals"]["compiles"], "not_known": 0}})

    def test_a_seed_is_a_draw(self):
        results = [run(self.record, "--json", "--ranks", "64", "--seed", seed).stdout for seed in "778"]
        self.assertEqual(results[0], results[1])
        self.assertNotEqual(results[0], results[2])
        self.assertEqual(json.loads(results[2])["drawn"]["seed"], 8)

    def test_what_is_marked_is_named_with_what_it_saves(self):
        ran = run(self.record, "--ranks", "64")
        self.assertIn("frames       step: 2 compiles in 5 calls, the last in call 1\n"
                      "drawn        from 12 inputs that 4 ranks had, seed 0\n"
                      "to mark      mark tokens.size(0) dynamic  # step: 4 to 26, 2 compiles\n"
                      "             marked so, the job has 1 compile in place of 2\n", ran.stdout)
        advice = self.result("--ranks", "1024")["advice"]
        self.assertEqual(advice, {"marks": [{"frame": "step", "source": "tokens", "dim": 0, "mark": "dynamic",
                                             "least": 4, "greatest": 26, "compiles": 2}],
                                  "compiles": 2, "compiles_if_marked": 1})
        self.assertEqual(self.result()["advice"], advice)

    def test_the_other_answers_go_with_it(self):
        page = f"{self.folder}/page.html"
        ran = run(self.record, "--ranks", "256", "--compare", "--network", "tcp", "--report", page,
                  "--csv", f"{self.folder}/calls.csv")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("lockstep_marked", ran.stdout)
        with open(page, encoding="utf-8") as file:
            self.assertIn("tokens.size(0)", file.read())

    def test_what_cannot_be_answered_is_one_sentence(self):
        for ranks in ("0", "-1", "x", "99999999999"):
            self.refused(self.record, "--ranks", ranks, says="--ranks")
        self.refused(self.record, "--seed", "1", says="--seed needs --ranks with a record")
        self.refused(self.record, "--sweep", "ranks=1,2", says="--sweep takes a scenario")
        lacking = f"{self.folder}/lacking"
        shutil.copytree(self.record, lacking)
        os.remove(f"{lacking}/rank-00002.jsonl")
        self.refused(lacking, "--ranks", "8", says="the record of rank 2 is missing")
        broken = f"{self.folder}/broken"
        shutil.copytree(self.record, broken)
        with open(f"{broken}/rank-00001.jsonl", "a", encoding="utf-8") as file:
            file.write('{"event": "nothing"}\n')
        self.refused(broken, "--ranks", "8", says="rank-00001.jsonl:")

    def test_a_record_that_was_altered_is_not_drawn_from(self):
        altered = f"{self.folder}/altered"
        shutil.copytree(self.record, altered)
        path = f"{altered}/rank-00001.jsonl"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"values":[4,8]', '"values":[6,8]', 1))
        ran = run(altered, "--ranks", "8")
        self.assertEqual((ran.returncode, ran.stdout), (3, ""))


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
