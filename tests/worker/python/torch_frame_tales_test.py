"""What ranks tell each other of frames (lockstep/torch/frame_tales.py), without torch.

torch_frame_tales_test.py FOLDER_OF_THE_PACKAGE"""

import importlib.util
import pathlib
import random
import sys
import unittest

PACKAGE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".")


def module(name):
    """A file of the package, without the package's library."""
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), PACKAGE / "lockstep" / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


tales, reports = module("torch/frame_tales"), module("reports")

STEP = "step (train.py:3)"
GRAPH = ["x = placeholder x(): f32[3, 4]", "a = call_function relu(x): f32[3, 4]\tat train.py:4", "out = output out(a)"]


def graph(rows=3, op="relu", line=4):
    return [node.replace("[3", f"[{rows}").replace("relu", op).replace(":4", f":{line}") for node in GRAPH]


class Board:
    """Ranks, each with what it has told."""

    def __init__(self, size):
        self.posts = [[] for _ in range(size)]
        self.ranks = [tales.FrameTales(rank, range(size), self.posts[rank].append, lambda of: len(self.posts[of]), self.read)
                      for rank in range(size)]

    def read(self, rank, number):
        return self.posts[rank][number - 1]

    def compiles(self, rank, nodes, frame=STEP, collectives=(), inputs=None, sizes=None, backward=None, closure=""):
        """What this rank is told, and what peers have seen of the frame's sizes."""
        seen = self.ranks[rank].begins(frame, closure)
        tale, said = self.ranks[rank].has_traced(frame, (nodes, collectives), backward, inputs or {}, sizes or {}, closure)
        return tale, said, seen


class Tales(unittest.TestCase):
    def test_what_is_told_is_read_as_it_was(self):
        graph = tales.Graph("d", "c", "n")
        for forward, backward in ((graph, None), (graph, graph._replace(nodes="")), (None, None)):
            tale = tales.Tale(STEP, 3, False, forward, backward, "f", {"x": "f32[3]"},
                              {"L['x']": [None, 3], "L['n']": None, "L['k']": 7})
            self.assertEqual(tales.tale_of(tale.told()), tale)
        for broken in ("", "{", "[]", "{\"inputs\": {}}"):
            self.assertIsNone(tales.tale_of(tale.told()._replace(about=broken)))

    def test_equal_graphs_are_quiet_whatever_their_lines(self):
        board = Board(2)
        self.assertEqual(board.compiles(0, graph())[1], "")
        self.assertEqual(board.compiles(1, graph(line=9))[1], "")

    def test_the_second_tells_the_first_node_that_differs_and_both_lines(self):
        board = Board(2)
        board.compiles(0, graph(op="relu"))
        _, said, _ = board.compiles(1, graph(op="tanh", line=6), collectives=["all_reduce"])
        self.assertEqual(said, f"the graphs of {STEP} on rank 1 and rank 0 differ, and so do their collectives: node 2: rank 1: "
                         "a = call_function tanh(x): f32[3, 4] at train.py:6; rank 0: a = call_function relu(x): f32[3, 4] at "
                         "train.py:4")

    def test_sizes_are_the_cause_only_where_they_differ(self):
        board = Board(2)
        board.compiles(0, graph(3), inputs={"x": "f32[3, 4]", "y": "f32[2]"})
        _, said, _ = board.compiles(1, graph(5), inputs={"x": "f32[5, 4]", "y": "f32[2]"})
        self.assertEqual(said, f"the graphs of {STEP} on rank 1 and rank 0 differ: node 1: rank 1: x = placeholder x(): "
                         "f32[5, 4]; rank 0: x = placeholder x(): f32[3, 4]; x is f32[5, 4] on rank 1 and f32[3, 4] on rank 0")

    def test_a_graph_that_goes_on_differs_where_the_other_ends(self):
        board = Board(2)
        board.compiles(0, graph())
        self.assertIn("node 4: rank 1: more; rank 0: no more nodes", board.compiles(1, graph() + ["more"])[1])

    def test_it_is_told_once_for_a_frame(self):
        board = Board(2)
        for rows in (3, 4):
            board.compiles(0, graph(rows))
        self.assertEqual(board.compiles(1, graph(5))[1], "", "rank 0 is at another version")
        self.assertNotEqual(board.compiles(1, graph(5))[1], "")
        board.compiles(0, graph(6))
        self.assertEqual(board.compiles(1, graph(7))[1], "")
        board.compiles(0, graph(3), "other (train.py:9)")
        self.assertNotEqual(board.compiles(1, graph(7), "other (train.py:9)")[1], "")

    def test_frames_of_one_rank_alone_are_quiet(self):
        board = Board(3)
        board.compiles(0, graph(), "first (stages.py:3)")
        self.assertEqual(board.compiles(1, graph(op="tanh"), "last (stages.py:9)")[1], "")

    def test_a_compile_again_sees_the_sizes_of_peers_and_the_first_none(self):
        board = Board(3)
        sizes = {rank: {"L['x']": [rank, 4]} for rank in range(3)}
        for rank in range(3):
            self.assertEqual(board.compiles(rank, graph(), sizes=sizes[rank])[2], [])
        self.assertEqual(board.compiles(1, graph(), sizes={"L['x']": [None, 4]})[2], [sizes[0], sizes[2]])
        self.assertEqual(board.ranks[0].begins(STEP), [{"L['x']": [None, 4]}, sizes[2]])
        board.compiles(0, graph(), "other (train.py:9)", sizes=sizes[0])
        self.assertEqual(board.ranks[1].begins("other (train.py:9)"), [])
        self.assertEqual(board.ranks[1].begins("other (train.py:9)", "", True), [sizes[0]])

    def test_a_compile_under_way_is_known_until_it_ends(self):
        board = Board(2)
        self.assertEqual(board.ranks[0].doing(1), "")
        board.ranks[1].begins(STEP)
        self.assertEqual(board.ranks[0].doing(1), STEP)
        self.assertTrue(board.ranks[0].is_compiled_elsewhere())
        board.ranks[1].begins("other (train.py:9)")  # on another thread
        board.ranks[1].has_ended(STEP)
        self.assertEqual(board.ranks[0].doing(1), "other (train.py:9)")
        board.ranks[1].has_traced("other (train.py:9)", (graph(), []), None, {}, {})
        self.assertEqual(board.ranks[0].doing(1), "")
        self.assertFalse(board.ranks[0].is_compiled_elsewhere())

    def test_backward_passes_are_compared_where_both_know_theirs(self):
        board = Board(3)
        board.compiles(0, graph(), backward=(["g = placeholder g()", "h = mul(g)"], []))
        self.assertEqual(board.compiles(1, graph())[1], "", "rank 1 has it from a cache")
        said = board.compiles(2, graph(), backward=(["g = placeholder g()", "h = add(g)"], ["all_reduce"]))[1]
        self.assertIn("rank 2 and rank 0 differ, and so do their collectives: node 5: rank 2: h = add(g); rank 0: h = mul(g)", said)

    def test_sizes_of_another_closure_are_not_those_of_this_frame(self):
        board = Board(2)
        board.compiles(0, graph(), sizes={"L['x']": [3]}, closure="double")
        board.compiles(1, graph(), closure="halve")
        self.assertEqual(board.compiles(1, graph(), closure="halve")[2], [])
        board.compiles(1, graph(), closure="double")
        self.assertEqual(board.compiles(1, graph(), closure="double")[2], [{"L['x']": [3]}])

    def test_ranks_that_a_report_is_about(self):
        for text, ranks in (("x [rank 0: all_reduce; ranks 2-3,7: broadcast]", [0, 2, 3, 7]),
                            ("wait [rank 1 waits for rank 0, for 0.3 s, in a; rank 0 waits for ranks 1,4, for 1 s]", [0, 1, 4]),
                            ("STUCK: rank 5 does not move on, and others wait for it [rank 1 waits for rank 5, for 4.0 s]", [5]),
                            ("something else", [])):
            self.assertEqual(reports.ranks_named(text), ranks)

    def test_why_an_operation_differs_is_told_of_the_ranks_that_are_named(self):
        board = Board(3)
        board.compiles(0, graph())
        board.compiles(2, graph(op="tanh"))
        tale, _, _ = board.compiles(1, graph())
        self.assertEqual(board.ranks[1].explained(tale, [0]), "")
        self.assertIn("rank 1 and rank 2 differ", board.ranks[1].explained(tale, [0, 2]))
        self.assertEqual(board.ranks[1].explained(tale, [7]), "", "of a rank that is not watched nothing is known")

    def test_of_more_graphs_than_there_is_room_for_it_is_told_that_they_differ(self):
        board = Board(2)
        draw = random.Random(1)
        def noise(nodes):
            return ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=99)) for _ in range(nodes)]
        board.compiles(0, noise(tales.MOST_TOLD // 50))
        board.compiles(0, graph(), "small (train.py:1)")
        self.assertEqual(board.compiles(1, noise(3))[1], f"the graphs of {STEP} on rank 1 and rank 0 differ")
        self.assertIn("node 2", board.compiles(1, graph(op="tanh"), "small (train.py:1)")[1])
        self.assertLess(sum(len(post.graph) for post in board.posts[0]), tales.MOST_TOLD)

    def test_what_is_no_longer_kept_is_passed_over(self):
        board = Board(2)
        board.compiles(0, graph())
        board.compiles(0, graph(op="tanh"))
        board.posts[0][0] = board.posts[0][1] = None
        self.assertEqual(board.compiles(1, graph())[1], "", "version 1 of rank 0 is not kept")
        self.assertIn("tanh", board.compiles(1, graph())[1])


unittest.main()
