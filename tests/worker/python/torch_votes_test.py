"""Votes of ranks before frames (lockstep/torch/votes.py), without torch: threads that stand for ranks, a table at which they
meet, and what torch would tell of its frames.

torch_votes_test.py FOLDER_OF_THE_PACKAGE [SEED]"""

import contextlib
import importlib
import pathlib
import random
import sys
import threading
import types
import unittest

PACKAGE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".")
SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 20261127
sys.path.insert(0, str(PACKAGE))
import lockstep  # noqa: E402

_package = types.ModuleType("lockstep.torch")  # whose own would import torch
_package.__path__ = [str(PACKAGE / "lockstep" / "torch")]
sys.modules["lockstep.torch"] = _package
votes = importlib.import_module("lockstep.torch.votes")
frames = importlib.import_module("lockstep.torch.frames")
assert "torch" not in sys.modules
Error, Finding, ERRORS = lockstep.Error, votes.Finding, votes.ERRORS


def error_of(code, message, rows=""):
    return ERRORS[code](Finding(code, message, "", (), f"{code}: {message} [{rows}]"))


class Table:
    """Where ranks meet; a rank that does not come is an error of the test, not a wait."""

    def __init__(self, size):
        self.size, self.lock, self.calls, self.results = size, threading.Condition(), {}, {}
        self.round, self.troubles, self.times = 0, {}, 0
        self.finding = None

    def meet(self, rank, call):
        with self.lock:
            now = self.round
            self.calls[rank] = call
            if len(self.calls) == self.size:
                self.results[now] = self.outcome([self.calls[each] for each in range(self.size)])
                self.calls, self.round = {}, now + 1
                self.lock.notify_all()
            elif not self.lock.wait_for(lambda: self.round > now, timeout=5):
                raise AssertionError(f"rank {rank} waits in {call} for ranks that do not come: {self.calls}")
            found = self.results[now]
        if isinstance(found, Error):
            raise found
        return found

    def outcome(self, calls):
        if self.troubles:
            rank, (code, text) = min(self.troubles.items())
            self.troubles = {}
            return error_of(code, f"rank {rank}: {text}")
        if len({call[:2] for call in calls}) > 1:
            return error_of("FRAME_MISMATCH", "the ranks entered different frames at the same call; make all do", "; ".join(
                f"rank {rank}: {call[1]}" for rank, call in enumerate(calls)))
        kind, what = calls[0][0], [call[2] for call in calls]
        if kind == "all":
            return all(what)
        if kind == "graph" and any(trouble for _, trouble in what):
            return error_of("COMPILE_ERROR", "; ".join(filter(None, (trouble for _, trouble in what))))
        if len(set(map(repr, what))) == 1:
            return 0
        self.times += 1
        self.finding = Finding("GRAPH_DIVERGENCE", f"{calls[0][1]} differs", "", (), "GRAPH_DIVERGENCE: it differs")
        return self.times


class Ballot:
    def __init__(self, table, rank):
        self.table, self.rank = table, rank
        self.group = types.SimpleNamespace(rank=rank)

    def enter(self, name, new, issued):
        return self.table.meet(self.rank, ("frame", name, (new, tuple(issued))))

    def compare(self, name, inputs, graph, trouble):
        return self.table.meet(self.rank, ("graph", name, (frames.compared(graph.nodes), trouble)))

    def all(self, mine):
        return self.table.meet(self.rank, ("all", "", mine))

    def trouble(self, text, code="RUNTIME_ASSERT"):
        self.table.troubles[self.rank] = code, text

    def finding(self):
        return self.table.finding

    def summary(self):
        return ""


class Watch:
    """As votes see it; `began`: how many users of the votes there are."""

    def __init__(self):
        self.thread, self.within, self.began, self.said, self._notes = threading.get_ident(), 0, 0, [], []
        self.has_begun_again = False  # with fewer ranks
        self.marks = types.SimpleNamespace(votes=0, asks=0)
        self.notes = types.SimpleNamespace(notes=lambda: list(self._notes), clear=self._notes.clear)

    @contextlib.contextmanager
    def waiting(self, members, name):
        self.within += 1
        try:
            yield
        finally:
            self.within -= 1

    def votes_begin(self, _):
        self.began += 1

    def votes_stand(self):
        return not self.has_begun_again

    def votes_end(self):
        self.began -= 1

    def training(self, graph, backwards):
        return frames.GraphText(graph.nodes + list(backwards or []), graph.collectives)

    def told(self, finding):
        self.said.append(finding.text)


class Rank:
    """What torch does on one rank: frames have versions, are looked up, compiled and run."""

    def __init__(self, table, number, raises):
        self.number, self.watch, self.met = number, Watch(), set()
        self.votes = votes.FrameVotes(self.watch, Ballot(table, number), list(range(table.size)), raises,
                                      lambda caller: caller.f_locals["frame"], lambda error: error)
        self.codes = {}

    def call(self, frame, found=True, graph=("out",), fails=None, goes_on=False, backwards=(), issues=(), inner=False):
        """A frame is called. `found`: its guards hold; `fails`: its compile; `goes_on`: and it runs without a graph;
        `inner`: one is compiled within it."""
        caller = sys._getframe(0)
        code = self.codes.setdefault(frame, compile("[issue(what) for what in issues]", frame, "eval"))
        new = frame not in self.met
        if not new:
            answer = self.votes.guards_tested(found, caller)
            if not isinstance(answer, bool):
                raise answer()
            new = not (answer and found)
        if new:
            self._compiles(code, frame, caller, graph, fails, goes_on, list(backwards), inner)
        eval(code, {"issue": self.issue, "issues": issues})
        return "ran"

    def _compiles(self, code, frame, caller, graph, fails, goes_on, backwards, inner):
        error = None
        try:
            if self.votes.votes_here():
                self.votes.compile_starts(frames.Compile(code, None, {}, caller))
            if inner:
                self.votes.graph_traced(compile("1", "inner", "eval"), frames.GraphText(["another"], []), [])
            if fails is None:
                self.votes.graph_traced(code, frames.GraphText(list(graph), []), backwards)
            else:
                raise fails
        except Exception as raised:
            error = raised
            if not goes_on or isinstance(raised, Error):
                raise
        finally:
            self.votes.compile_ended(error, goes_on and not isinstance(error, Error))
        if error is None:
            self.met.add(frame)

    def issue(self, what):
        if self.watch.marks.asks:
            self.votes.asked(what, "")
        self.watch._notes.append(what)


def on_ranks(size, raises, program):
    """What `program(rank)` gives on each of so many ranks."""
    table, given = Table(size), [None] * size

    def run(number):
        try:
            given[number] = program(Rank(table, number, raises))
        except BaseException as error:  # told below
            given[number] = error
    threads = [threading.Thread(target=run, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in given:
        if isinstance(each, BaseException):
            raise AssertionError(f"{given}") from each
    return given


def tried(call, *args, **kwargs):
    """What came of it: the name of the error's class, or what was given."""
    try:
        return call(*args, **kwargs)
    except Error as error:
        return type(error).__name__
    except OSError:
        return "own error"


class Frames(unittest.TestCase):
    def test_a_first_encounter_meets_a_version_that_others_have(self):
        def program(rank):
            if rank.number > 0:
                rank.met.add("f")
            return tried(rank.call, "f")
        self.assertEqual(on_ranks(3, True, program), ["GraphDivergence"] * 3)

    def test_ranks_that_compile_compare_their_graphs(self):
        for graph, want in ((("a",), "ran"), (("b",), "GraphDivergence")):
            def program(rank):
                return tried(rank.call, "f", graph=graph if rank.number else ("a",)), tried(rank.call, "f")
            first = {outcome for outcome, _ in on_ranks(2, True, program)}
            self.assertEqual(first, {want})

    def test_backward_graphs_are_compared_where_all_know_theirs(self):
        def program(rank):
            return tried(rank.call, "f", backwards=("b",) if rank.number else ("a",))
        self.assertEqual(on_ranks(2, True, program), ["GraphDivergence"] * 2)

    def test_one_whose_guards_fail_is_joined_by_all_within_compile(self):
        """No error there: all compile."""
        def program(rank):
            with rank.votes:
                return [tried(rank.call, "f"), tried(rank.call, "f", found=rank.number > 0), rank.watch.began]
        self.assertEqual(on_ranks(3, False, program), [["ran", "ran", 1]] * 3)

    def test_a_compile_that_fails_on_one_rank_is_an_error_on_all(self):
        def program(rank):
            out = [tried(rank.call, "f", fails=OSError("no compiler") if rank.number == 1 else None)]
            return out + [tried(rank.call, "g")]
        out = on_ranks(3, True, program)
        self.assertEqual([each[0] for each in out], ["CompileError", "own error", "CompileError"])
        self.assertEqual([each[1] for each in out], ["ran"] * 3)

    def test_a_frame_that_goes_on_without_a_graph_raises_at_its_next_event(self):
        """Nothing can be raised where the compile has ended; the others have raised."""
        def program(rank):
            fails = OSError("unsupported") if rank.number == 0 else None
            return [tried(rank.call, "f", fails=fails, goes_on=True), tried(rank.call, "g"), tried(rank.call, "g")]
        first, second = on_ranks(2, True, program)
        self.assertEqual((first[0], second[0]), ("ran", "GraphDivergence"))
        self.assertEqual(first[1], second[1])  # the error of all ranks, once more, or none
        self.assertEqual((first[2], second[2]), ("ran", "ran"))

    def test_an_inner_compile_is_not_the_frames_graph(self):
        def program(rank):
            return tried(rank.call, "f", inner=rank.number == 0)
        self.assertEqual(on_ranks(2, True, program), ["ran"] * 2)

    def test_other_frames_are_named_with_what_is_to_be_done(self):
        def program(rank):
            try:
                rank.call("train" if rank.number else "evaluate")
            except lockstep.FrameMismatch as error:
                return str(error)
        for text in on_ranks(2, True, program):
            self.assertIn("watch.alone()", text)
            self.assertIn("rank 0: evaluate", text)

    def test_other_threads_and_calls_within_are_not_voted(self):
        def program(rank):
            thread = threading.Thread(target=rank.call, args=("f",))
            thread.start()
            thread.join()
            with rank.watch.waiting([], ""):
                inside = tried(rank.call, f"of rank {rank.number}")
            return inside, rank.votes.elsewhere, rank.votes.votes
        for inside, elsewhere, number in on_ranks(2, True, program):
            self.assertEqual((inside, number), ("ran", 0))
            self.assertGreater(elsewhere, 0)


class Collectives(unittest.TestCase):
    def test_each_is_voted_under_error_and_none_within_alone(self):
        def program(rank):
            out = [tried(rank.issue, "all_reduce f32[4]"), rank.votes.votes]
            if rank.number == 0:
                with rank.votes.alone():
                    out += [tried(rank.issue, "broadcast"), tried(rank.call, "evaluate"), rank.watch.marks.asks]
                rank.watch._notes.clear()
            return out + [tried(rank.issue, "all_reduce" if rank.number else "broadcast")]
        first, second = on_ranks(2, True, program)
        self.assertEqual(first, [None, 1, None, "ran", False, "FrameMismatch"])
        self.assertEqual(second, [None, 1, "FrameMismatch"])

    def test_no_frame_is_voted_next_within_alone_or_once_the_job_has_begun_again(self):
        def program(rank):
            with rank.votes.alone():
                within = rank.votes.votes_next()
            outside = rank.votes.votes_next()
            rank.watch.has_begun_again = True
            return within, outside, rank.votes.votes_next()
        self.assertEqual(on_ranks(2, True, program), [(False, True, False)] * 2)

    def test_none_is_voted_once_the_job_has_begun_again_without_some(self):
        def program(rank):
            rank.watch.has_begun_again = rank.number == 0  # the other has left
            return [tried(rank.issue, "all_reduce"), tried(rank.call, "f"), rank.votes.votes] if rank.number == 0 else []
        self.assertEqual(on_ranks(2, True, program)[0], [None, "ran", 0])

    def test_what_was_issued_is_compared_at_the_next_frame(self):
        def program(rank):
            with rank.votes:
                rank.met.add("f")
                rank.issue("all_reduce sum f32[4]" if rank.number else "all_reduce max f32[4]")
                return [tried(rank.call, "f"), tried(rank.call, "f"), rank.votes.votes, rank.watch.marks.asks]
        self.assertEqual(on_ranks(2, False, program), [["ran", "ran", 2, False]] * 2)  # both compile, to be sure

    def test_strictly_votes_each_and_the_end(self):
        def program(rank):
            def body():
                with rank.votes.strictly("f"):
                    rank.issue("all_reduce")
                    if rank.number == 1:
                        raise OSError("on this rank alone")
                return "ran"
            return tried(body), tried(rank.issue, "all_reduce"), rank.watch.marks.asks
        self.assertEqual(on_ranks(2, False, program), [("RuntimeAssert", None, False), ("own error", None, False)])


class Random(unittest.TestCase):
    def test_whatever_ranks_do_in_one_order_all_raise_or_none(self):
        """Frames in one order, with guards, graphs, failures and collectives that differ."""
        for seed in range(SEED, SEED + 300):
            draw = random.Random(seed)
            size, steps = draw.choice((2, 3, 4)), []
            for _ in range(draw.randint(1, 8)):
                frame, odd = draw.choice("fgh"), draw.randrange(size)
                steps.append((frame, odd, draw.choice(("alike", "alike", "guards", "graph", "fails", "goes_on", "issues", "inner")),
                              draw.random() < 0.4))

            def program(rank):
                out = []
                for frame, odd, what, misses in steps:
                    mine = rank.number == odd
                    options = {"found": not misses, "issues": ("all_reduce",)}
                    if mine and what == "guards":
                        options["found"] = misses
                    if mine and what == "graph":
                        options["graph"] = ("another",)
                    if mine and what in ("fails", "goes_on"):
                        options.update(fails=OSError("fails"), goes_on=what == "goes_on")
                    if mine and what == "issues":
                        options["issues"] = ("all_gather",)
                    out.append(tried(rank.call, frame, inner=mine and what == "inner", **options))
                return out
            with self.subTest(seed=seed):
                outcomes = on_ranks(size, True, program)
                for step, of_ranks in enumerate(zip(*outcomes)):
                    kinds = {"ran" if outcome == "ran" else "raised" for outcome in of_ranks}
                    self.assertEqual(len(kinds), 1, f"{steps}: step {step}: {outcomes}")


print("seed", SEED)
unittest.main(argv=sys.argv[:1] + sys.argv[1:], verbosity=2)
