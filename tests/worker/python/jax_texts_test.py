"""Canonical texts of modules, partners of collectives, and verdicts on waits (lockstep/jax), without JAX.

jax_texts_test.py FOLDER_OF_THE_PACKAGE"""

import importlib
import importlib.util
import itertools
import logging
import pathlib
import random
import sys
import threading
import types
import typing
import unittest

PACKAGE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".")


def module(name):
    spec = importlib.util.spec_from_file_location(name, PACKAGE / "lockstep" / "jax" / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


texts, partners, standstill = module("module_text"), module("partners"), module("standstill")


class Post(typing.NamedTuple):
    kind: str
    dtype: str = ""
    place: str = ""
    needs: int = 0


def once_module():
    """The module once, with posts of this test in place of those of the library."""
    stubs = {"lockstep": {"__path__": []}, "lockstep.jax": {"__path__": [str(PACKAGE / "lockstep" / "jax")]},
             "lockstep.errors": {"said": repr}, "lockstep.lines": {"NEEDS_NOBODY": 0, "Operation": Post},
             "lockstep.jax.modules": {"Board": object}}
    for name, members in stubs.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
    return importlib.import_module("lockstep.jax.once")


once = once_module()

TEXT = """#loc1 = loc("w")
#loc2 = loc("batch['x']")
#loc = loc(unknown)
module @jit_step attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x1xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>} loc("w"), \
%arg1: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>} loc("batch['x']")) -> (tensor<f32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32> loc(#loc)
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x1xf32> loc(#loc6)
    return %cst : tensor<f32> loc(#loc5)
  } loc(#loc)
} loc(#loc)
#loc3 = loc("/home/me/train.py":33:19 to :31)
#loc4 = loc("loss"(#loc3))
#loc5 = loc(callsite(#loc at #loc4))
#loc6 = loc("jit(step)/dot_general"(#loc5))
"""


def made(text=TEXT, options={}, static={}, name="jit_step"):
    return texts.with_places(texts.module_of(name, text, options, static), text)


class Texts(unittest.TestCase):
    def test_places_do_not_count(self):
        other = TEXT.replace("/home/me/train.py\":33", "/tmp/copy.py\":99").replace("#loc6", "#loc61").replace('loc("w")', 'loc("v")')
        self.assertEqual(made().digest, made(other).digest)

    def test_all_else_counts(self):
        for old, new in (("2.000000e+00", "3.000000e+00"), ("4x4xf32", "2x4xf32"), ("jax.buffer_donor = true, ", ""), ('{"x"}', "{}"),
                         ("num_partitions = 2", "num_partitions = 4"), ("dot_general %arg1, %arg0", "dot_general %arg0, %arg1")):
            self.assertNotEqual(made().digest, made(TEXT.replace(old, new)).digest, old)
        self.assertNotEqual(made().digest, made(options={"the order of devices": "1 0"}).digest)
        self.assertNotEqual(made().digest, made(name="jit_other").digest)
        self.assertEqual(made().digest, made(static={"layers": "2"}).digest)  # what it does to the module is in the text

    def test_numbers_of_callbacks_do_not_count(self):
        line = '    %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%0) {api_version = 4, backend_config = {index = %d : ui64}} : () loc(#loc6)'
        one, other = (TEXT.replace("    return", line.replace("%d", number) + "\n    return") for number in ("0", "140234"))
        self.assertEqual(made(one).digest, made(other).digest)
        self.assertNotEqual(made(one).digest, made(other.replace("callback(%0)", "callback(%1)")).digest)

    def test_packed_and_unpacked(self):
        given = made(static={"layers": "2"}, options={"the order of devices": "0 1"})
        back = texts.unpacked(given.packed())
        self.assertEqual((list(back.operations), list(back.arguments), back.static, back.options),
                         (list(given.operations), list(given.arguments), given.static, given.options))
        for broken in ("", "?", given.packed()[:40]):
            self.assertIsNone(texts.unpacked(broken))

    def test_arguments(self):
        self.assertEqual(made().arguments, [
            ("w", "tensor<4x1xf32>", True, "#sdy.sharding<@mesh, [{}, {}]>"),
            ("batch['x']", "tensor<4x4xf32>", False, '#sdy.sharding<@mesh, [{"x"}, {}]>')])

    def test_difference(self):
        def said(text, **facts):
            return texts.difference(made(static={"layers": "2"}), made(text, **{"static": {"layers": "2"}, **facts}), 0, 3)
        self.assertEqual(said(TEXT), "")
        self.assertEqual(said(TEXT.replace("2.0", "3.0")), "the first operation that differs: rank 0: %cst = stablehlo.constant "
                         "dense<2.000000e+00> : tensor<f32> at train.py:33; rank 3: %cst = stablehlo.constant dense<3.000000e+00> : "
                         "tensor<f32> at train.py:33")
        self.assertIn("the static argument layers is 2 on rank 0 and 3 on rank 3", said(TEXT, static={"layers": "3"}))
        self.assertIn("batch['x'] is f32[4, 4] on rank 0 and f32[2, 4] on rank 3; the first operation that differs: rank 0: %0 = "
                      "stablehlo.dot_general", said(TEXT.replace("4x4xf32", "2x4xf32")))
        self.assertIn("w is donated on rank 0 only", said(TEXT.replace("jax.buffer_donor = true, ", "")))
        self.assertIn('has the sharding #sdy.sharding<@mesh, [{"x"}, {}]> on rank 0', said(TEXT.replace('{"x"}', "{}")))
        self.assertIn("rank 3: no more operations", said(TEXT[:TEXT.index("\n  } loc(#loc)")]))


def reference(sizes, order):
    """The numbers 0, 1, … laid out in dims of these sizes, read with the dims in another order."""
    steps = [1] * len(sizes)
    for dim in reversed(range(len(sizes) - 1)):
        steps[dim] = steps[dim + 1] * sizes[dim + 1]
    return [sum(at * steps[dim] for at, dim in zip(place, order)) for place in itertools.product(*(range(sizes[dim]) for dim in order))]


class Partners(unittest.TestCase):
    def of(self, groups, operation="all-reduce", processes=(0, 0, 1, 1)):
        return tuple(partners.partners_of(f"  %r = f32[] {operation}(%p), channel_id=1, {groups}, to_apply=%add", processes))

    def test_forms_of_groups(self):
        for groups in ("replica_groups={}", "replica_groups={{0,1,2,3}}", "replica_groups=[1,4]<=[4]",
                       "replica_groups=mesh['a'=2,'b'=2] {'a','b'}", "replica_groups={{0,2},{1,3}}", "replica_groups=[2,2]<=[2,2]T(1,0)",
                       "replica_groups=mesh['a'=2,'b'=2] {'a'}"):
            self.assertEqual(self.of(groups), (True, True), groups)
        for groups in ("replica_groups={{0,1},{2,3}}", "replica_groups=[2,2]<=[4]", "replica_groups=mesh['a'=2,'b'=2] {'b'}"):
            self.assertEqual(self.of(groups), (False, False), groups)

    def test_needs_all(self):
        self.assertEqual(self.of("source_target_pairs={{0,2},{1,3}}", "collective-permute"), (True, False))
        self.assertEqual(self.of("replica_groups={{0,1},{2,3}}", processes=(0, 1, 2, 3)), (True, False))
        self.assertEqual(self.of("replica_groups={{0,1},{2,3}}", "all-gather-start", (0, 1, 0, 1)), (True, True))
        self.assertEqual(self.of("something_new"), (True, False))
        self.assertEqual(tuple(partners.partners_of("  %r = f32[] add(%all-reduce.2, %p)\n", (0, 1))), (False, False))

    def test_transposed(self):
        rng = random.Random(7)
        for _ in range(200):
            sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
            order = rng.sample(range(len(sizes)), len(sizes))
            self.assertEqual(list(partners._transposed(sizes, order)), reference(sizes, order), (sizes, order))


class Verdicts(unittest.TestCase):
    def code(self, *ranks, ends=False):
        found = standstill.verdict(0, {rank: standstill.Rank(*state) for rank, state in enumerate(ranks)}, 100.0, 60.0, ends)
        return found and found.code

    def test_no_verdict_on_a_rank_that_may_go_on(self):
        waits = (standstill.WAITS, "a.py:1", 0.0)
        for other in ((standstill.MOVES,), (standstill.MAY_WAIT, "b.py:2", 0.0), (standstill.UNSEEN,), (standstill.WAITS, "b.py:2", 98.0),
                      (standstill.STILL, "b.py:2", 41.0), (standstill.STOPPED, "", 41.0)):
            self.assertIsNone(self.code(waits, other), other)
            self.assertIsNone(self.code(waits, (standstill.FINISHED,), other), other)
        for own in (standstill.MOVES, standstill.STILL):
            self.assertIsNone(self.code((own, "a.py:1", 0.0), (standstill.GONE, "ValueError: bad", 0.0)))
        self.assertIsNone(self.code((standstill.MAY_WAIT, "a.py:1", 0.0), (standstill.FINISHED,)))
        self.assertIsNone(self.code((standstill.WAITS, "a.py:1", 98.0), (standstill.FINISHED,)))
        # What the others did just before they ended may be on its way.
        for ended in ((standstill.FINISHED, "", 97.5), (standstill.GONE, "ValueError: bad", 99.9), (standstill.LOST, "", 99.9)):
            self.assertIsNone(self.code((standstill.WAITS, "a.py:1", 0.0), ended), ended)
        for other in ((standstill.FINISHED,), (standstill.WAITS, "b.py:2", 0.0), (standstill.STILL, "b.py:2", 0.0)):
            self.assertIsNone(self.code((standstill.WAITS, "a.py:1", 0.0), other, ends=True), other)
        self.assertIsNone(self.code((standstill.WAITS, "a.py:1", 41.0), (standstill.STILL, "b.py:2", 0.0)))
        self.assertIsNone(self.code((standstill.WAITS, "a.py:1", 99.8), (standstill.LOST,)))

    def test_verdicts(self):
        for own in (standstill.WAITS, standstill.MAY_WAIT):
            waits = (own, "a.py:1", 0.0)
            self.assertEqual(self.code(waits, (standstill.GONE, "ValueError: bad")), "GONE")
            self.assertEqual(self.code(waits, (standstill.GONE, "ValueError: bad"), ends=True), "GONE")
            self.assertEqual(self.code(waits, (standstill.MOVES,), (standstill.LOST,)), "RANK_LOST")
            self.assertEqual(self.code(waits, (standstill.STILL, "b.py:2", 39.0)), "STUCK")
            self.assertEqual(self.code(waits, (standstill.STOPPED, "", 39.0)), "STUCK")
        waits = (standstill.WAITS, "a.py:1", 0.0)
        self.assertEqual(self.code(waits, (standstill.FINISHED,), (standstill.WAITS, "b.py:2", 90.0)), "STUCK")

    def test_the_report_of_one_is_the_report_of_all(self):
        ranks = {0: standstill.Rank(standstill.WAITS, "a.py:1", 0.0),
                 1: standstill.Rank(standstill.GONE, "GraphDivergence: GRAPH_DIVERGENCE: operation 3 is not the same [rank 0: a; rank 1: b]")}
        found = standstill.verdict(0, ranks, 100.0, 60.0)
        self.assertEqual((found.code, found.text), ("GRAPH_DIVERGENCE", "operation 3 is not the same [rank 0: a; rank 1: b]"))

    def test_a_later_post_is_a_new_state(self):
        told = standstill.Told()
        self.assertEqual(told.sees(1, standstill.STILL, "b.py:2", 10.0, 4).since, 10.0)
        self.assertEqual(told.sees(1, standstill.STILL, "b.py:2", 20.0, 4).since, 10.0)
        self.assertEqual(told.sees(1, standstill.STILL, "b.py:2", 30.0, 6).since, 30.0)


class Boards:
    """Posts of all ranks, and a store."""

    def __init__(self):
        self.posts, self.bytes = {}, {}

    def of(self, rank):
        board = types.SimpleNamespace(tell=lambda key, post: self.posts.setdefault(rank, []).append(post),
                                      times_told=lambda key, of: len(self.posts.get(of, [])),
                                      told=lambda key, of, number: self.posts[of][number - 1])
        return board

    def put_bytes(self, key, data):
        self.bytes[key] = data

    def take_bytes(self, key, seconds):
        return self.bytes[key]


class Once(unittest.TestCase):
    """Executables that rank 0 builds and rank 1 loads."""

    def setUp(self):
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.boards, self.alive, self.built = Boards(), True, []
        self.ranks = [once.Once(rank, self.boards.of(rank), "key", self.boards, "p/", lambda peer: self.alive) for rank in range(2)]

    def way(self, rank, save=lambda made: made.encode(), load=lambda data: data.decode() + " loaded"):
        return once.Way(lambda: self.built.append(rank) or f"built by {rank}", save, load)

    def made(self, rank, digest="d", most=5.0, **way):
        return self.ranks[rank].executable("jit_f", digest, (0, 1), most, self.way(rank, **way))

    def test_the_first_builds_and_the_others_load(self):
        self.assertEqual(self.made(0), "built by 0")
        self.assertEqual(self.made(1), "built by 0 loaded")
        self.assertEqual((self.built, self.ranks[1].loaded), ([0], 1))

    def test_the_others_wait_while_the_first_builds(self):
        began, ends = threading.Event(), threading.Event()

        def build():
            began.set()
            ends.wait(10)
            return "slow"
        first = threading.Thread(target=lambda: self.ranks[0].executable("jit_f", "d", (0, 1), 5, once.Way(build, str.encode, None)))
        first.start()
        began.wait(10)
        threading.Timer(0.3, ends.set).start()
        self.assertEqual(self.made(1), "slow loaded")
        first.join()

    def test_no_bytes_mean_a_build_here(self):
        def fails(*_):
            raise ValueError("cannot")
        self.made(0, "not saved", save=fails)
        self.assertEqual(self.made(1, "not saved"), "built by 1")
        self.made(0, "not loaded")
        self.assertEqual(self.made(1, "not loaded", load=fails), "built by 1")
        self.made(0, "changed")
        self.boards.bytes["p/changed"] = self.boards.bytes["p/not loaded"][:-1] + b"?"
        self.assertEqual(self.made(1, "changed"), "built by 1")
        self.made(0, "lost")
        del self.boards.bytes["p/lost"]
        self.assertEqual(self.made(1, "lost"), "built by 1")
        with self.assertRaises(ValueError):
            self.ranks[0].executable("jit_f", "failed", (0, 1), 5, once.Way(fails, str.encode, None))
        self.assertEqual(self.made(1, "failed"), "built by 1")
        self.assertEqual(self.ranks[1].loaded, 0)

    def test_a_first_that_does_not_begin_or_end_is_not_waited_for(self):
        once._PATIENCE = 0.1
        self.addCleanup(setattr, once, "_PATIENCE", 3.0)
        self.assertEqual(self.made(1, "never"), "built by 1")
        self.boards.of(0).tell("key", Post("builds", "endless"))
        self.assertEqual(self.made(1, "endless", most=0.2), "built by 1")
        self.alive = False
        self.boards.of(0).tell("key", Post("builds", "gone"))
        self.assertEqual(self.made(1, "gone", most=1000), "built by 1")

    def test_a_module_that_is_compiled_again_stays_in_the_store(self):
        self.made(0)
        self.made(0, save=lambda made: b"other")
        self.assertEqual(self.made(1), "built by 0 loaded")


if __name__ == "__main__":
    unittest.main()
