"""A job in Python that is recorded: its record replays, and a dry run draws from it.
usage: record_test.py FOLDER_OF_PACKAGE LOCKSTEP; on each rank, record_test.py FOLDER_OF_PACKAGE"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RANKS = 2


class Rows:
    def __init__(self, rows):
        self.shape, self.dtype = (rows, 4), "float32"


def job():
    """Two agreements of one name, an error of one rank, ranks in other functions, conditions on sizes."""
    sys.path.insert(0, sys.argv[1])
    import lockstep

    with lockstep.Group(deadline=20) as group:
        first = lockstep.Agreement(group, "compile step")
        second = lockstep.Agreement(group, "compile step", recompile_limit=1)

        def build(entry, decision):
            if "x.size(0)" in str(decision.symbols):
                decision.guard("x.size(0) >= 3", "step.py:7")
            return f"version {entry}: {decision}"

        def call(agreement, rows, frame="step"):
            try:
                agreement.agree(frame, None if rows is None else lockstep.Observation(x=Rows(rows)), build)
            except lockstep.Error as error:
                return error.code
            return ""

        rank = group.rank
        assert [call(first, rows) for rows in (8, 4 + rank, 9 + rank)] == [""] * 3
        assert [call(second, rows) for rows in (8, 9)] == [""] * 2  # the first version takes all sizes
        assert call(*((first, 5) if rank == 0 else (second, 5, "other"))) == "FRAME_MISMATCH"
        assert call(first, 2 + rank) == "BRANCH_DIVERGENCE"
        if rank == 1:
            group.trouble("no such shard", "BAD_INPUT")
        assert call(first, 6) == "BAD_INPUT"
        first._untested = rank == 1  # which is in its vote
        assert call(first, 5 + rank) == ""


def known_job():
    """Of two agreements of one name one has seen sizes that vary. Tells what each decides for 7 rows."""
    sys.path.insert(0, sys.argv[1])
    import lockstep

    with lockstep.Group(deadline=20) as group:
        agreements = [lockstep.Agreement(group, "step"), lockstep.Agreement(group, "step")]
        told = []
        for agreement, rows in zip(agreements, (7 + group.rank * (os.environ["RUN"] == "first"), 7)):
            agreed = agreement.agree("step", lockstep.Observation(x=Rows(rows)), lambda entry, decision: decision.text)
            told.append(bool(agreed.decision.symbols))
        print(json.dumps(told))


class RecordTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-record-")
        cls.record = os.path.join(cls.folder.name, "record")
        cls.ran = cls.start(cls.record)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def start(cls, record, size=RANKS, **more):
        meeting = os.path.join(tempfile.mkdtemp(dir=cls.folder.name), "ranks")
        common = {**os.environ, "LOCKSTEP_WORLD_SIZE": str(size), "LOCKSTEP_RENDEZVOUS": meeting,
                  "LOCKSTEP_TOKEN": "a-secret-of-this-test", "LOCKSTEP_RECORD": record,
                  "LOCKSTEP_CACHE_DIR": os.path.join(cls.folder.name, "cache"), **more}
        ranks = [subprocess.Popen([sys.executable, __file__, PACKAGE], env={**common, "LOCKSTEP_RANK": str(rank)},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for rank in range(size)]
        return [(rank.communicate(timeout=60)[0], rank.returncode) for rank in ranks]

    def dryrun(self, *options, record=None):
        return subprocess.run([LOCKSTEP, "dryrun", record or self.record, *options], capture_output=True, text=True,
                              timeout=60)

    def test_the_record_replays(self):
        self.assertEqual([code for _, code in self.ran], [0] * RANKS, self.ran)
        ran = self.dryrun("--json")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        told = [(call["frame"], call["outcome"], call.get("error", {}).get("code"))
                for call in json.loads(ran.stdout)["calls"]]
        self.assertEqual(told, [
            ("step", "compiled", None), ("step", "compiled", None), ("step", "reused", None),
            ("step (2)", "compiled", None), ("step (2)", "reused", None),
            (None, "error", "FRAME_MISMATCH"), ("step", "error", "BRANCH_DIVERGENCE"),
            ("step", "error", "BAD_INPUT"), ("step", "reused", None)])

    def test_many_ranks_draw_from_it(self):
        ran = self.dryrun("--json", "--ranks", "64")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        result = json.loads(ran.stdout)
        self.assertEqual(result["drawn"]["calls_left_out"], 1)
        self.assertEqual(result["drawn"]["calls_as_recorded"], 1)
        self.assertIn("torch._dynamo.mark_dynamic(x, 0)  # step: 2 to 10, ",
                      [mark["line"] for mark in result["advice"]["marks"]][0])

    def test_a_job_with_an_id_starts_from_what_it_has_seen_on_any_number_of_ranks(self):
        for run, size, want in (("first", 2, [True, False]), ("second", 3, [True, False]), ("third", 1, [True, False])):
            record = os.path.join(self.folder.name, run)
            ran = self.start(record, size, LOCKSTEP_JOB_ID="known", RUN=run)
            self.assertEqual([(json.loads(said), code) for said, code in ran], [(want, 0)] * size, ran)
            replay = self.dryrun("--json", record=record)
            self.assertEqual((replay.returncode, replay.stderr), (0, ""), run)
        ran = self.start(os.path.join(self.folder.name, "other"), LOCKSTEP_JOB_ID="other", RUN="second")
        self.assertEqual([json.loads(said) for said, _ in ran], [[False, False]] * 2, ran)

    def test_a_record_that_is_there_is_not_overwritten(self):
        before = {file.name: file.read_bytes() for file in pathlib.Path(self.record).iterdir()}
        for said, code in self.start(self.record):
            self.assertEqual(code, 1, said)
            self.assertIn("there is a record here already", said)
        after = {file.name: file.read_bytes() for file in pathlib.Path(self.record).iterdir()}
        self.assertEqual(before, after)


if "LOCKSTEP_RANK" in os.environ:
    known_job() if "RUN" in os.environ else job()
else:
    PACKAGE, LOCKSTEP = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
