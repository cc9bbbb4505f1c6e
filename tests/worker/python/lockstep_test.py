"""The Python module under mpirun, with any number of ranks. usage: lockstep_test.py FOLDER_OF_PACKAGE"""

import dataclasses
import threading
import unittest
from typing import Any

from test_ranks import GROUP, LAST, MPI, RANK, SIZE, run_tests

import lockstep  # the one that test_ranks has found
import numpy
from lockstep._library import lib
from lockstep.agreement import HitVote


@dataclasses.dataclass
class Batch:
    tokens: Any
    weights: Any = None


class FakeTorch:
    """As lockstep sees a torch tensor."""

    def __init__(self, *shape: int, transposed: bool = False) -> None:
        self.shape = shape
        self.dtype = _TorchDtype()
        self._stride = (1, shape[0]) if transposed else (shape[1], 1)
        self.device = "cpu"

    def stride(self):
        return self._stride


class _TorchDtype:
    def __str__(self) -> str:
        return "torch.bfloat16"


class Naming(unittest.TestCase):
    def test_every_code_is_an_exception_and_every_public_name_is_there(self):
        for code in lockstep.CODES[1:]:
            name = "".join(part.capitalize() for part in code.split("_"))
            self.assertIs(lockstep.ERRORS[code], getattr(lockstep, name))
            self.assertIn(name, lockstep.__all__)
        self.assertEqual([name for name in lockstep.__all__ if not hasattr(lockstep, name)], [])


class Observing(unittest.TestCase):
    def test_nested_values_become_named_sources(self):
        seen = lockstep.Observation(
            batch={"tokens": [numpy.zeros((3, 4), "int64"), numpy.ones(2, "float16")],
                   "more": Batch(numpy.zeros((0, 5)), (True, 7))},
            lr=0.1, step=numpy.int64(9), flag=numpy.bool_(False), t=FakeTorch(2, 6), nothing=None,
            how="fast")
        self.assertEqual(seen.names(), [
            "batch.tokens[0]", "batch.tokens[1]", "batch.more.tokens", "batch.more.weights[0]",
            "batch.more.weights[1]", "lr", "step", "flag", "t", "nothing=None", "how='fast'"])
        self.assertEqual(seen.values, [3, 4, 2, 0, 5, 1, 7, 9, 0, 2, 6])

    def test_a_decision_reads_back_as_values_and_symbols(self):
        agreement = lockstep.Agreement(GROUP, "reading")
        inputs = {"lr": 0.1, "n": 3, "train": True, "t": FakeTorch(4, 6)}
        for rows in (12, 5 + RANK):
            last = agreement.agree("f", lockstep.Observation(x=numpy.zeros((rows, 2)), **inputs))
        decision = last.decision
        self.assertEqual(decision.inputs, {"n": 3, "t": [4, 6], "train": True, "x": ["s0", 2]})
        symbol = decision.size("x", 0)
        self.assertEqual((symbol.name, symbol.source, symbol.min), ("s0", "x.size(0)", 2))
        self.assertEqual(decision.size("x", 1), 2)
        self.assertIn("x: f64[s0, 2]", str(decision))
        self.assertIn("t: bf16[4, 6]", str(decision))

    def test_what_cannot_be_observed_is_said_with_its_name(self):
        with self.assertRaisesRegex(TypeError, r"batch\[1\] is of type set, which lockstep cannot observe"):
            lockstep.Observation(batch=[1, {2}])
        with self.assertRaisesRegex(TypeError, "x has dtype complex128"):
            lockstep.Observation(x=numpy.zeros(3, complex))
        with self.assertRaisesRegex(TypeError, "does not fit into 64 bits"):
            lockstep.Observation(x=2**63)
        with self.assertRaisesRegex(ValueError, "there is no input y to mark; there are x"):
            lockstep.Observation({"y": {0: "dynamic"}}, x=numpy.zeros(3))
        with self.assertRaisesRegex(ValueError, "'wobbly' is no mark"):
            lockstep.Observation({"x": {0: "wobbly"}}, x=numpy.zeros(3))


class Agreeing(unittest.TestCase):
    def test_sizes_settle_on_one_dynamic_version(self):
        agreement = lockstep.Agreement(GROUP, "sizes")
        built = []

        def build(entry, decision):
            built.append(entry)
            return decision.text.split(" hint")[0]

        entries = []
        for call in range(6):
            rows = 12 if call < 2 else 2 + (3 * RANK + 5 * call) % 7
            x = numpy.zeros((rows, 4)).T.copy().T if call == 3 else numpy.zeros((rows, 4))
            entries.append(agreement.agree("step", lockstep.Observation(x=x), build).entry)
        self.assertEqual(entries, [0, 0, 1, 1, 1, 1])
        self.assertEqual(built, [0, 1])

    def test_marks_of_one_call_do_not_stay(self):
        agreement = lockstep.Agreement(GROUP, "marks")
        x = numpy.zeros((4, 4))
        marked = lockstep.Observation({"x": {0: "dynamic"}}, x=x)
        self.assertEqual(agreement.agree("f", marked).decision.inputs["x"], ["s0", 4])
        plain = agreement.agree("f", lockstep.Observation(x=x))
        self.assertEqual((plain.entry, plain.is_new), (0, False))
        static = lockstep.Observation({"x": {0: "static"}}, x=x)
        self.assertEqual(agreement.agree("f", static).decision.inputs["x"], [4, 4])

    def test_a_size_marked_uniform_is_a_symbol_that_all_ranks_have_alike(self):
        agreement = lockstep.Agreement(GROUP, "uniform")

        def agree(rows):
            x = numpy.zeros((rows, 4))
            return agreement.agree("f", lockstep.Observation({"x": {0: "uniform"}}, x=x))

        self.assertEqual(agree(4).decision.inputs["x"], ["s0", 4])
        self.assertEqual((agree(9).entry, agree(9).is_new), (0, False))
        if SIZE > 1:
            with self.assertRaisesRegex(lockstep.ConstraintViolation, "is marked uniform") as caught:
                agree(7 if LAST else 9)
            self.assertEqual(caught.exception.ranks[-1], (str(SIZE - 1), "7"))
        self.assertEqual((agree(7).entry, agree(7).is_new), (0, False))

    def test_a_build_that_raises_on_one_rank_is_every_ranks_error(self):
        agreement = lockstep.Agreement(GROUP, "build")

        def build(entry, decision):
            if LAST:
                raise RuntimeError("out of registers")

        with self.assertRaises(lockstep.CompileError) as caught:
            agreement.agree("f", lockstep.Observation(n=1), build)
        self.assertIn("RuntimeError: out of registers", caught.exception.message)
        self.assertEqual(caught.exception.ranks[-1],
                         (str(SIZE - 1), "RuntimeError: out of registers"))
        self.assertEqual(caught.exception.exit_code, 3)
        self.assertEqual(isinstance(caught.exception.__cause__, RuntimeError), LAST)
        self.assertEqual(agreement.agree("f", lockstep.Observation(n=1)).entry, 0)

    def test_past_the_limit_there_is_no_version(self):
        agreement = lockstep.Agreement(GROUP, "limit", recompile_limit=1)
        agreement.agree("f", lockstep.Observation(b=True))
        self.assertEqual(agreement.agree("f", lockstep.Observation(b=False)), (None, False, None))
        with_field = agreement.agree("f", lockstep.Observation(b=False).observe("rank", RANK, "max"))
        self.assertEqual((with_field.entry, with_field.decision.fields), (None, {"rank": SIZE - 1}))

    def test_a_mark_that_makes_no_sense_on_one_rank_fails_on_all(self):
        agreement = lockstep.Agreement(GROUP, "odd marks")
        for dim in (-1, 1, 2**64):
            marks = {"y": {dim: "dynamic"}} if LAST else None
            with self.assertRaises(lockstep.BadInput):
                agreement.agree("f", lockstep.Observation(marks, y=numpy.zeros(3)))
        self.assertEqual(agreement.agree("f", lockstep.Observation(y=numpy.zeros(3))).entry, 0)

    def test_a_vote_on_the_version_before_says_when_ranks_have_more_to_test(self):
        agreement = lockstep.Agreement(GROUP, "hits")
        built = []
        vote = HitVote(agreement, "f", lambda entry, decision: built.append(entry))

        def observed(rows):
            return lockstep.Observation(x=numpy.zeros(rows))._handle(agreement._declared)

        agreement.agree("f", lockstep.Observation(x=numpy.zeros(4)))
        self.assertIsNone(vote(observed(4), 0, False))
        self.assertEqual(vote(observed(4), 0, LAST)[:2], (0, False))
        self.assertEqual(vote(observed(4), 1, False)[:2], (0, False), "another version was expected")
        if LAST:  # as a rank that does not expect a version
            agreement._untested = True
            self.assertEqual(agreement.agree("f", lockstep.Observation(x=numpy.zeros(4))).entry, 0)
        else:
            self.assertEqual(vote(observed(4), 0, False)[:2], (0, False))
        self.assertEqual(vote(observed(5 if LAST else 4), 0, False)[:2], (1, True))
        self.assertEqual(built, [1])
        self.assertIsNone(vote(observed(7), 1, False))
        GROUP.trouble("the data loader is broken")
        with self.assertRaisesRegex(lockstep.RuntimeAssert, "the data loader is broken"):
            vote(observed(7), 1, False)
        self.assertIsNone(vote(observed(7), 1, False))

    def test_sizes_and_ints_that_change_one_after_another_settle(self):
        for settle, entries in ((True, 4), (False, 8)):
            agreement = lockstep.Agreement(GROUP, f"settle {settle}", settle=settle)
            seen, calls = set(), 14
            for changed in range(calls + 1):
                sizes = [5 if i < changed else 3 for i in range(calls)]
                seen.add(agreement.agree("f", lockstep.Observation(
                    xs=[numpy.zeros(n) if i % 2 else n for i, n in enumerate(sizes)])).entry)
            self.assertEqual(seen, set(range(entries)) | (set() if settle else {None}))

    def test_programs_that_differ_are_an_error_on_all_ranks(self):
        if SIZE == 1:
            return
        agreement = lockstep.Agreement(GROUP, "programs")
        with self.assertRaises(lockstep.GraphDivergence):
            agreement.agree("f", lockstep.Observation(n=1), lambda entry, decision: "q" if LAST else "p")

    def test_inputs_that_differ_carry_the_table(self):
        if SIZE == 1:
            return
        agreement = lockstep.Agreement(GROUP, "inputs")
        with self.assertRaises(lockstep.DtypeMismatch) as caught:
            agreement.agree("f", lockstep.Observation(x=numpy.zeros(3, "f4" if LAST else "f8")))
        ranks = "0" if SIZE == 2 else f"0-{SIZE - 2}"
        self.assertEqual(caught.exception.ranks, ((ranks, "f64"), (str(SIZE - 1), "f32")))
        self.assertEqual(caught.exception.source, "x")
        self.assertEqual(caught.exception.code, "DTYPE_MISMATCH")

    def test_a_wrong_configuration_is_said(self):
        with self.assertRaisesRegex(lockstep.BadInput, "consistency is -1"):
            lockstep.Agreement(GROUP, "c", consistency="none")
        if SIZE > 1:
            with self.assertRaisesRegex(lockstep.ConfigMismatch, "recompile_limit"):
                lockstep.Agreement(GROUP, "c", recompile_limit=2 if LAST else 3)

    def test_twice_the_same_name_on_one_rank_is_every_ranks_error(self):
        agreement = lockstep.Agreement(GROUP, "names")
        inputs = {1: 5, "1": 6} if LAST else {1: 5}
        with self.assertRaisesRegex(lockstep.BadInput, "d.1 has been declared already"):
            agreement.agree("f", lockstep.Observation(d=inputs))
        self.assertEqual(agreement.agree("f", lockstep.Observation(d={1: 5})).entry, 0)


class Voting(unittest.TestCase):
    def test_votes_are_joint(self):
        self.assertTrue(GROUP.any(LAST))
        self.assertFalse(GROUP.any([]))
        self.assertEqual(GROUP.all(LAST), SIZE == 1)
        self.assertTrue(GROUP.all("yes"))
        rounds = 0
        while GROUP.more(rounds < RANK + 1):
            rounds += 1
        self.assertEqual(rounds, SIZE)
        GROUP.settle()
        GROUP.busy(1)

    def test_trouble_reaches_all_ranks_once(self):
        if LAST:
            GROUP.trouble("the disk is full", "ENVIRONMENT")
        with self.assertRaisesRegex(lockstep.Environment, "the disk is full"):
            GROUP.settle()
        GROUP.settle()
        with self.assertRaisesRegex(lockstep.BadInput, "none that a rank can bring"):
            GROUP.trouble("x", "STUCK")



def elsewhere(*calls):
    """What the calls raise on a thread of their own."""
    said = []

    def run():
        for call in calls:
            try:
                said.append(call())
            except BaseException as error:
                said.append(error)

    thread = threading.Thread(target=run, name="second")
    thread.start()
    thread.join()
    return said


class Threads(unittest.TestCase):
    def assert_refused(self, said):
        for error in said:
            self.assertIsInstance(error, lockstep.BadInput)
            for part in ("thread 'second' makes a call", "one of thread 'MainThread'", "one after the other"):
                self.assertIn(part, error.message)

    def test_calls_one_after_the_other_may_come_from_any_thread(self):
        step = lockstep.agreed(lambda x: len(x) + RANK, GROUP, name="moved")
        for rows in (3, 4, 5):
            self.assertEqual(elsewhere(lambda: step(numpy.zeros(rows)), lambda: GROUP.any(RANK == 0), GROUP.settle),
                             [rows + RANK, True, None])
            self.assertEqual(step(numpy.zeros(rows)), rows + RANK)

    def test_a_call_while_another_threads_is_built_or_runs_is_refused_and_that_one_is_unharmed(self):
        said = []

        def second():
            said.extend(elsewhere(
                lambda: step(numpy.zeros(9)), lambda: step.prefetch(numpy.zeros(9)), lambda: audited(numpy.zeros(9)),
                lambda: step.agreement.agree("step", lockstep.Observation(n=1)), lambda: GROUP.any(True),
                lambda: GROUP.more(True), GROUP.settle, GROUP.resync, GROUP.finish))

        def build(entry, decision):
            second()
            return lambda x: (entry, second(), len(x))

        step = lockstep.agreed(lambda x: None, GROUP, name="busy", build=build)
        audited = lockstep.audited(lambda x: None, GROUP, lambda x: "program")
        entries = [step(numpy.zeros(rows))[0::2] for rows in (3 + RANK, 3 + RANK, 5 + RANK)]
        self.assertEqual([rows for _, rows in entries], [3 + RANK, 3 + RANK, 5 + RANK])
        self.assertEqual(len(said), 9 * (3 + len({entry for entry, _ in entries})))
        self.assert_refused(said)
        GROUP.settle()

    def test_the_library_refuses_too_and_keeps_what_is_in_use(self):
        agreement = lockstep.Agreement(GROUP, "in use")
        said = []

        def build(entry, decision):
            said.extend(elsewhere(lambda: GROUP.note("x"), lambda: GROUP.poke(), lambda: GROUP.trouble("x"),
                                  agreement.summary))
            elsewhere(lambda: lib.agreement_free(agreement._handle))  # is kept
            self.assertEqual(elsewhere(lambda: GROUP.busy(1.0), GROUP.stalls), [None, None])

        last = agreement.agree("f", lockstep.Observation(n=1), build)
        self.assertEqual(last.entry, 0)
        self.assertEqual(agreement.agree("f", lockstep.Observation(n=1), build).entry, 0)
        self.assertEqual(said[3], "")
        for error in said[:3]:
            self.assertIsInstance(error, lockstep.BadInput)
            self.assertRegex(error.message, r"the group: thread \d+ calls it while a call of the main thread")
        GROUP.settle()


class Wrapping(unittest.TestCase):
    def test_agreed_runs_the_function_and_its_ranks_agree(self):
        calls = []

        def step(x, scale=1.0, *, train):
            calls.append(len(x))
            return float(x.sum()) * scale

        wrapped = lockstep.agreed(step, GROUP)
        self.assertEqual(wrapped.__name__, "step")
        for call in range(3):
            rows = 2 + RANK + call
            self.assertEqual(wrapped(numpy.ones(rows), 2.0, train=True), 2.0 * rows)
        self.assertEqual(len(calls), 3)
        self.assertEqual(wrapped.last.decision.inputs, {"train": True, "x": ["s0"]})
        self.assertFalse(wrapped.last.is_new)

    def test_agreed_runs_the_version_that_was_built(self):
        def build(entry, decision):
            def version(x):
                return entry, len(x)
            version.program_text = str(decision.inputs)
            return version

        wrapped = lockstep.agreed(lambda x: None, GROUP, name="v", build=build)
        self.assertEqual(wrapped(numpy.zeros(12)), (0, 12))
        self.assertEqual(wrapped(numpy.zeros(5 + RANK)), (1, 5 + RANK))
        self.assertEqual(wrapped(numpy.zeros(6 + RANK)), (1, 6 + RANK))

    def test_another_function_on_one_rank_is_a_frame_mismatch(self):
        if SIZE == 1:
            return
        agreement = lockstep.Agreement(GROUP, "frames")
        train = lockstep.agreed(lambda x: x, GROUP, name="train", agreement=agreement)
        evaluate = lockstep.agreed(lambda x: x, GROUP, name="evaluate", agreement=agreement)
        with self.assertRaises(lockstep.FrameMismatch) as caught:
            (evaluate if LAST else train)(1)
        self.assertEqual(caught.exception.ranks[-1], (str(SIZE - 1), "evaluate"))
        self.assertEqual(train(1), 1)

    def test_an_exception_of_the_function_is_told_at_the_next_call(self):
        def step(x):
            if LAST and x == 1:
                raise ZeroDivisionError("no rows")
            return x

        wrapped = lockstep.agreed(step, GROUP)
        if LAST:
            with self.assertRaises(ZeroDivisionError):
                wrapped(1)
        else:
            self.assertEqual(wrapped(1), 1)
        with self.assertRaisesRegex(lockstep.RuntimeAssert, "ZeroDivisionError: no rows"):
            wrapped(2)
        self.assertEqual(wrapped(2), 2)

    def test_inputs_that_cannot_be_observed_on_one_rank_fail_on_all_in_that_call(self):
        wrapped = lockstep.agreed(lambda x: x, GROUP, name="odd")
        with self.assertRaisesRegex(lockstep.BadInput, "x is of type set"):
            wrapped({1} if LAST else 1)
        self.assertEqual(wrapped(1), 1)

    def test_audited_finds_counts_and_stops(self):
        if SIZE == 1:
            return
        found = []
        wrapped = lockstep.audited(
            lambda x, program, calls: x.shape[0], GROUP, lambda x, program, calls: program,
            name="audit", collectives=lambda x, program, calls: calls,
            observe=lambda x, program, calls: {"x": x}, report=found.append)
        x = numpy.zeros((9 if LAST else 8, 2))
        self.assertEqual(wrapped(x, "p", ["all_reduce"]), x.shape[0])
        self.assertEqual(found, [])
        for _ in range(3):
            wrapped(x, "q" if LAST else "p", ["all_reduce"])
        # Once with rank LAST compiling, then from its cache.
        self.assertEqual([finding.code for finding in found], ["GRAPH_DIVERGENCE"] * 2)
        self.assertEqual(found[0].source, "x.size(0)")
        with self.assertRaisesRegex(lockstep.GraphDivergence, "would issue different collectives"):
            wrapped(x, "p", ["all_gather" if LAST else "all_reduce"])
        self.assertIn("5 calls, 3 with a finding (2 different), 1 stopped",
                      wrapped.agreement.summary())


class Ahead(unittest.TestCase):
    def test_collectives_that_were_issued_are_compared_without_their_places(self):
        audit = lockstep.Agreement(GROUP, "issued").audit
        place = f"a.py:{GROUP.rank}"
        mine = [f"all_reduce f32[4]\tat {place}", "barrier"]
        GROUP.note("between two calls")
        GROUP.issues(f"all_reduce f32[4] at {place}")
        GROUP.stalls()
        self.assertEqual(audit("step", None, "p", mine, issued=True), (0, None))
        if GROUP.size == 1:
            return
        if GROUP.rank == 0:
            mine.append("broadcast f32[4]\tat b.py:9")
        with self.assertRaises(lockstep.GraphDivergence) as raised:
            audit("step", None, "p", mine, issued=True)
        self.assertIn("collective 3 is not the same (rank 0: broadcast f32[4] at b.py:9; ",
                      raised.exception.message)
        self.assertEqual(raised.exception.finding.text, str(raised.exception))
        times, finding = audit("step", None, f"p{GROUP.rank > 0}", [],
                               program_text=f"2 lines\nalike\t{place}\nodd {GROUP.rank > 0}")
        self.assertEqual(times, 1)
        self.assertIn("from line 2 on (rank 0: odd False; ", finding.message)

    def test_prefetched_calls_give_the_same_results(self):
        def build(entry, decision):
            return lambda x: (entry, x.shape[0])

        def batch(call):
            return numpy.zeros(((3 * RANK + 5 * call) % 6, 2))

        plain = lockstep.agreed(lambda x: None, GROUP, name="plain", build=build)
        ahead = lockstep.agreed(lambda x: None, GROUP, name="ahead", build=build)
        ahead.prefetch(batch(0))
        for call in range(10):
            ahead.prefetch(batch(call + 1))
            for _ in range(50):
                GROUP.poke()
            if call == 4:
                self.assertTrue(GROUP.any(LAST))
            self.assertEqual(ahead(batch(call)), plain(batch(call)))
        GROUP.resync()  # drops the call that was promised and not made
        self.assertEqual(ahead(batch(1)), plain(batch(1)))

    def test_a_prefetch_that_one_rank_breaks_is_every_ranks_error_where_a_version_is_built(self):
        agreement = lockstep.Agreement(GROUP, "broken")
        marked = lockstep.Observation({"x": {0: "dynamic"}}, x=numpy.zeros(3))
        agreement.prefetch("f", marked)
        with self.assertRaisesRegex(lockstep.BadInput, r"f was prefetched with x.size\(0\): marked "
                                                       "dynamic, but is called with unmarked"):
            agreement.agree("f", lockstep.Observation(x=numpy.zeros(3)) if LAST else marked)
        self.assertEqual(agreement.agree("f", lockstep.Observation(x=numpy.zeros(3))).entry, 0)

    def test_inputs_that_cannot_be_observed_are_the_error_of_the_call_that_was_prefetched(self):
        wrapped = lockstep.agreed(lambda x: x, GROUP, name="odd ahead")
        wrapped.prefetch({1} if LAST else 1)
        with self.assertRaisesRegex(lockstep.BadInput, "x is of type set"):
            wrapped({1} if LAST else 1)
        self.assertEqual(wrapped(1), 1)

    def _train(self, steps, batch):
        """A loop that goes on after any error but Gone: the calls that were made, and the errors."""
        step = lockstep.agreed(lambda rows: sum(rows), GROUP, name="step",
                               observe=lambda rows: {"rows": len(rows)})
        call, made, errors = 0, [], []
        while True:
            try:
                if not GROUP.more(call < steps):
                    return made, errors
                call += 1
                step(batch(call))
                made.append(call)
            except lockstep.Gone:
                raise
            except Exception as error:
                errors.append(error)
                GROUP.resync(error)

    def test_after_an_exception_on_one_rank_resync_has_the_loop_go_on(self):
        made, errors = self._train(6, lambda call: ["x"] if LAST and call == 3 else [1] * (call + RANK))
        self.assertEqual(len(errors), 1)
        if LAST:
            self.assertIsInstance(errors[0], TypeError)
            self.assertEqual(made, [1, 2, 4, 5, 6])
        else:
            self.assertRegex(str(errors[0]), f"RUNTIME_ASSERT: rank {SIZE - 1} failed before .*TypeError")
            self.assertEqual(made, [1, 2, 3, 4, 5, 6])

    def test_an_exception_outside_of_any_call_is_told_by_resync(self):
        def loader(call):
            if LAST and call == 3:
                raise OSError("no such shard")
            return [call]

        made, errors = self._train(5, loader)
        self.assertEqual((made, len(errors)), ([1, 2, 4, 5], 1))
        self.assertIn("no such shard", str(errors[0]))
        self.assertEqual(isinstance(errors[0], lockstep.RuntimeAssert), not LAST)

    def test_resync_without_a_reason_says_where_the_others_are(self):
        if SIZE == 1:
            return
        with self.assertRaisesRegex(lockstep.FrameMismatch, "resync"):
            GROUP.resync() if LAST else GROUP.settle()
        GROUP.resync()
        GROUP.settle()


class Guarding(unittest.TestCase):
    def agree(self, agreement, rows, *guards):
        self.decision = None

        def build(entry, decision):
            self.decision = decision
            for guard in guards if decision.symbols else ():
                decision.guard(guard)

        return agreement.agree("f", lockstep.Observation(x=numpy.zeros((rows, 3))), build)

    def test_a_version_fits_only_where_its_guards_hold(self):
        agreement = lockstep.Agreement(GROUP, "guards")
        self.agree(agreement, 8)
        even = self.agree(agreement, 4 + 2 * RANK + (SIZE == 1) * 2, "x.size(0) % 2 == 0",
                          "x.size(1) == 3")
        self.assertEqual((even.entry, even.is_new), (1, True))
        self.assertEqual(self.agree(agreement, 20 - 2 * RANK)[:2], (1, False))
        with self.assertRaises(lockstep.BranchDivergence) as caught:
            self.agree(agreement, 7 if LAST else 6, "x.size(0) % 2 == 0")
        self.assertRegex(caught.exception.message, r"relies on Mod\(x.size\(0\), 2\) == 0 "
                                                   r"\(lockstep_test.py:\d+\), which holds on")
        self.assertEqual(caught.exception.ranks[-1], (str(SIZE - 1), "x.size(0) = 7: false"))
        self.assertEqual(self.agree(agreement, 6)[:2], (1, False))
        odd = self.agree(agreement, 7 if LAST else 6)
        self.assertEqual((odd.entry, odd.is_new), (2, True))
        with self.assertRaisesRegex(lockstep.BadInput, "while it runs"):
            self.decision.guard("x.size(0) > 1")

    def test_a_text_that_is_no_guard_fails_the_build_on_all_ranks(self):
        agreement = lockstep.Agreement(GROUP, "bad guards")
        self.agree(agreement, 8)
        rows = 9 + RANK
        with self.assertRaisesRegex(lockstep.BadInput, 'cannot be read from "rows > 2" on'):
            self.agree(agreement, rows, *(["rows > 2"] if LAST else []))
        with self.assertRaisesRegex(lockstep.BranchDivergence, r"in which x.size\(1\) is 3"):
            self.agree(agreement, rows, "x.size(1) > x.size(1)", "x.size(1) // 2 != 1")
        self.assertTrue(self.agree(agreement, rows, "2*x.size(0) - 1 > Min(x.size(1), 7)").is_new)


class Ending(unittest.TestCase):
    def test_an_exception_that_leaves_the_block_is_told(self):
        if SIZE == 1:
            return
        try:
            with lockstep.Group(MPI.COMM_WORLD, deadline=30) as group:
                if LAST:
                    raise KeyError("batch")
                group.settle()
            self.fail("no error")
        except KeyError:
            self.assertTrue(LAST)
        except lockstep.Gone as error:
            self.assertIn(f"rank {SIZE - 1} left: KeyError: 'batch'", error.message)

    def test_a_group_without_a_communicator_is_the_launchers(self):
        # Regression: each process was a group of its own, without a word.
        with lockstep.Group(deadline=30) as group:
            self.assertEqual((group.rank, group.size), (RANK, SIZE))
            self.assertEqual(group.any(LAST), True)

    def test_a_group_of_this_process_alone(self):
        with self.assertRaisesRegex(ValueError, "leave one of the two out"):
            lockstep.Group(MPI.COMM_WORLD, alone=True)
        with lockstep.Group(alone=True) as group:
            self.assertEqual((group.rank, group.size), (0, 1))
            double = lockstep.agreed(lambda x: 2 * x, group, name="double")
            self.assertEqual(double(4), 8)
        for late in (group.settle, group.resync, group.poke):
            with self.assertRaisesRegex(lockstep.BadInput, "do not use it once it is closed"):
                late()
        with self.assertRaisesRegex(lockstep.BadInput, "do not use it once it is freed"):
            double.prefetch(4)

    def test_codes_and_their_classes(self):
        self.assertEqual(lockstep.CODES[0], "OK")
        self.assertEqual(lockstep.CODES[-1], "INTERNAL")
        self.assertTrue(issubclass(lockstep.BranchDivergence, lockstep.Error))


if __name__ == "__main__":
    run_tests()
