"""The versions of a function that ranks call together (lockstep/torch/versions.py), without torch.

torch_versions_test.py FOLDER_OF_THE_PACKAGE"""

import importlib
import sys
import types
import unittest

FOLDER = sys.argv.pop(1)
sys.path.insert(0, FOLDER)
import lockstep  # noqa: E402, F401
from lockstep.agreement import Agreed  # noqa: E402

_package = types.ModuleType("lockstep.torch")  # whose own would import torch
_package.__path__ = [f"{FOLDER}/lockstep/torch"]
sys.modules["lockstep.torch"] = _package
versions = importlib.import_module("lockstep.torch.versions")
assert "torch" not in sys.modules


class Decision:
    def __init__(self, **fields):
        self.fields = fields


def version(contiguous=()):
    return versions.Version(lambda: "run", lambda: "found", frozenset(contiguous), [])


class Settling(unittest.TestCase):
    def setUp(self):
        self.versions = versions.Versions(joins_fields=False)

    def test_nothing_is_like_a_call_before_the_first(self):
        self.assertIsNone(self.versions.like_last)
        self.assertIsNone(self.versions.of_last)
        self.assertIsNone(self.versions.decision)

    def test_a_call_may_be_like_the_last_one(self):
        made, decision = version(), Decision(capacity=4)
        self.versions.keep(0, made)
        self.versions.settle(Agreed(0, True, decision))
        self.assertIs(self.versions.like_last, made)
        self.assertIs(self.versions.of_last, made)
        self.assertIs(self.versions.decision, decision)
        self.assertEqual(self.versions.fields, {"capacity": 4})

    def test_a_hit_is_not_new(self):
        self.versions.keep(0, version())
        self.versions.settle(Agreed(0, True, Decision()))
        self.versions.hit()
        self.assertFalse(self.versions.last.is_new)
        self.assertIsNotNone(self.versions.like_last)

    def test_copies_are_made_before_each_call(self):
        made = version(contiguous=["x"])
        self.versions.keep(0, made)
        self.versions.settle(Agreed(0, True, Decision()))
        self.assertIsNone(self.versions.like_last)
        self.assertIs(self.versions.of_last, made)

    def test_fields_are_joined_before_each_call(self):
        joining = versions.Versions(joins_fields=True)
        joining.keep(0, version())
        joining.settle(Agreed(0, True, Decision(capacity=4)))
        self.assertIsNone(joining.like_last)

    def test_without_a_version_the_function_runs_as_it_is(self):
        self.versions.keep(0, version())
        self.versions.settle(Agreed(0, True, Decision(capacity=4)))
        self.versions.settle(Agreed(None, False, None))
        for nothing in (self.versions.like_last, self.versions.of_last, self.versions.decision):
            self.assertIsNone(nothing)
        self.assertEqual(self.versions.fields, {"capacity": 4})

    def test_an_error_changes_nothing(self):
        made = version()
        self.versions.keep(0, made)
        self.versions.settle(Agreed(0, True, Decision()))
        with self.assertRaises(KeyError):
            self.versions.settle(KeyError("x"))
        self.assertIs(self.versions.like_last, made)


class Making(unittest.TestCase):
    def setUp(self):
        self.versions, self.traces = versions.Versions(joins_fields=False), 0

    def make(self, small, error=None, why="it is a loop's bound", fields=None):
        def trace():
            self.traces += 1
            self.during = dict(self.versions.fields)
            if error is not None:
                raise error
            self.versions.keep(0, version())
            return "graph"
        return self.versions.make(0, Decision(**(fields or {})), frozenset(small), trace, lambda error: why)

    def test_a_trace_reads_the_fields_of_its_decision(self):
        self.assertEqual(self.make([], fields={"capacity": 8}), "graph")
        self.assertEqual(self.during, {"capacity": 8})

    def test_what_is_replaced_is_gone_where_the_trace_fails(self):
        self.make([])
        self.versions.settle(Agreed(0, True, Decision()))
        with self.assertRaises(ValueError):
            self.make([], ValueError("x"))
        self.assertIsNone(self.versions.of_last)

    def test_a_size_without_its_value_is_not_traced_again(self):
        for _ in range(2):
            with self.assertRaisesRegex(versions.NeedsValue, "it is a loop's bound"):
                self.make(["x.size(0)"], ValueError("x"))
        self.assertEqual(self.traces, 1)
        self.assertEqual(self.make(["y.size(0)"]), "graph")  # of another one nothing is known
        self.assertEqual(self.traces, 2)

    def test_another_error_is_the_functions_own(self):
        for small, why in (([], "it needs one"), (["x.size(0)"], None)):
            with self.assertRaisesRegex(ValueError, "^x$"):
                self.make(small, ValueError("x"), why)
        self.assertEqual(self.make(["x.size(0)"]), "graph")


class Issuing(unittest.TestCase):
    def test_the_first_run_is_voted_and_what_is_like_it_is_not(self):
        made = version()
        self.assertFalse(made.issues_as_known(["all_reduce sum f32[4]", "barrier"]))
        self.assertTrue(made.issues_as_known(["all_reduce sum f32[8]", "barrier"]))
        self.assertTrue(made.issues_as_known(["all_reduce sum f32[8]"]))  # an exception ended it
        self.assertFalse(made.issues_as_known(["all_gather f32[8]", "barrier"]))
        self.assertFalse(made.issues_as_known(["all_reduce sum f32[8]", "barrier", "barrier"]))
        self.assertTrue(made.issues_as_known(["all_reduce sum f32[8]", "barrier"]))


if __name__ == "__main__":
    unittest.main()
