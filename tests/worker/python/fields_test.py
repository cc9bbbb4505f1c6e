"""What ranks agree on besides sizes: fields, the order of keys, objects. usage: fields_test.py FOLDER_OF_PACKAGE"""

import gc
import unittest
import weakref

from test_ranks import GROUP, LAST, RANK, SIZE, run_tests

import lockstep  # the one that test_ranks has found
import numpy


class Fields(unittest.TestCase):
    def test_fields_are_joined_before_a_version_is_built(self):
        agreement = lockstep.Agreement(GROUP, "fields")
        built = []

        def call(capacity, host="a", build=lambda entry, decision: built.append(decision.fields)):
            seen = lockstep.Observation(x=numpy.zeros((4, 2))).observe("capacity", capacity, join="max")
            seen.observe("host", host, join="union").observe("key", b"\0\xff").observe(
                "ready", not LAST, join="min")
            return agreement.agree("f", seen, build)

        first = call(numpy.int32(500 + RANK), f"h\0{RANK % 2}")
        self.assertEqual((first.entry, first.is_new), (0, True))
        joined = {"capacity": 499 + SIZE, "host": ("h\0000", "h\0001")[:SIZE], "key": b"\0\xff",
                  "ready": False}
        self.assertEqual(first.decision.fields, joined)
        self.assertEqual(built, [joined])
        again = call(7 - RANK, "h\0000")
        self.assertEqual((again.entry, again.is_new), (0, False))
        self.assertEqual(again.decision.fields["capacity"], 499 + SIZE)
        self.assertEqual(call(1000, "h\0000").entry, 1)
        plain = agreement.agree("f", lockstep.Observation(x=numpy.zeros((4, 2))))
        self.assertEqual((plain.entry, plain.decision.fields), (2, {}))
        if SIZE > 1:
            seen = lockstep.Observation(x=numpy.zeros((4, 2)))
            with self.assertRaisesRegex(lockstep.SourceMismatch, "field capacity is present on some"):
                agreement.agree("f", seen.observe("capacity", 1) if LAST else seen)
            with self.assertRaisesRegex(lockstep.ConstantMismatch, "field seed is to be equal"):
                agreement.agree("f", lockstep.Observation().observe("seed", RANK))
            with self.assertRaisesRegex(lockstep.SourceMismatch, "value how='max' is given on some ranks and not on others"):
                agreement.agree("f", lockstep.Observation(how="sum" if LAST else "max"))

    def test_a_field_that_cannot_be_one_is_said_with_its_name(self):
        seen = lockstep.Observation(x=numpy.zeros(3))
        with self.assertRaisesRegex(TypeError, "field f is of type float; a field is an int, a bool"):
            seen.observe("f", 0.5)
        with self.assertRaisesRegex(TypeError, "field f is .*, which does not fit into 64 bits"):
            seen.observe("f", 2**63)
        with self.assertRaisesRegex(TypeError, "the name of a field is a str, not int"):
            seen.observe(7, 1)
        with self.assertRaisesRegex(ValueError, "'sum' is no join for field f; use one of equal, min"):
            seen.observe("f", 1, join="sum")
        with self.assertRaisesRegex(ValueError, "field f has 1025 bytes and a field takes at most 1024"):
            seen.observe("f", "x" * 1025)
        with self.assertRaisesRegex(ValueError, "empty name"):
            seen.observe("", 1)
        with self.assertRaisesRegex(ValueError, "x is observed already"):
            seen.observe("x", 1)
        self.assertIs(seen.observe("f", "x" * 1024), seen)
        with self.assertRaisesRegex(ValueError, "f is observed already"):
            seen.observe("f", 1)

    def test_a_wrapped_function_has_fields(self):
        made = []

        def build(entry, decision):
            made.append(decision.fields)
            return step

        def step(x, capacity):
            return capacity

        run = lockstep.agreed(step, GROUP, build=build, observe=lambda x, capacity: {"x": x},
                              fields=lambda x, capacity: {"capacity": (capacity, "max")})
        x = numpy.zeros((4, 2))
        self.assertEqual(run(x, 10 + RANK), 10 + RANK)
        run.prefetch(x, 3)
        self.assertEqual(run(x, 3), 3)
        self.assertEqual(run.last.entry, 0)
        run(x, 1000)
        self.assertEqual(made, [{"capacity": 9 + SIZE}, {"capacity": 1000}])
        with self.assertRaisesRegex((ValueError, lockstep.BadInput), "field capacity has 1025 bytes"):
            run(x, "x" * 1025 if LAST else "x")

    def test_the_order_of_keys_counts_where_it_is_asked_for(self):
        def step(batch):
            return list(batch)

        one, two = {"a": 1.0, "b": {"c": 2.0, "d": 3.0}}, {"b": {"d": 3.0, "c": 2.0}, "a": 1.0}
        for key_order, entries in ((True, [0, 1, 0, 2]), (False, [0, 0, 0, 0])):
            run = lockstep.agreed(step, GROUP, name=f"order {key_order}", key_order=key_order)
            got = []
            for batch in (one, two, one, {"a": 1.0, "b": {"d": 3.0, "c": 2.0}}):
                self.assertEqual(run(batch), list(batch))
                got.append(run.last.entry)
            self.assertEqual(got, entries)
            if key_order:
                fields = run.last.decision.fields
                self.assertEqual(fields, {"batch.keys()": "a, b", "batch.b.keys()": "d, c"})
            run.prefetch(one)
            run(one)
            self.assertEqual(run.last.entry, 0)
            if key_order and SIZE > 1:
                with self.assertRaisesRegex(lockstep.ConstantMismatch, r"batch.keys\(\)") as caught:
                    run(two if LAST else {"a": 1.0, "b": two["b"]})
                self.assertEqual(caught.exception.ranks[-1][0], str(SIZE - 1))
                run(one)

    def test_many_keys_and_keys_with_commas_are_told_apart(self):
        def text(*keys):
            return list(lockstep.Observation.of({"x": dict.fromkeys(keys, 1)}, key_order=True)._fields.values())[0]

        many = [f"a long name of a key {i}" for i in range(100)]
        self.assertRegex(text(*many), r"^100 keys, [0-9a-f]{32}$")
        self.assertNotEqual(text(*many), text(*reversed(many)))
        self.assertEqual(text("a", "b"), "a, b")
        self.assertNotEqual(text("a, b", "c"), text("a", "b, c"))

    def test_objects_are_told_apart_by_identity_or_by_their_keys(self):
        class Tokenizer:
            def __init__(self, words):
                self.words = words

        def step(x, tokenizer):
            return tokenizer.words

        x = numpy.zeros((4, 2))
        run = lockstep.agreed(step, GROUP, name="identity", observe=lambda x, tokenizer: {
            "x": x, "tokenizer": lockstep.Opaque(tokenizer)})
        first, second = Tokenizer(1), Tokenizer(1)
        entries = []
        for tokenizer in (first, second, first):
            self.assertEqual(run(x, tokenizer), 1)
            entries.append(run.last.entry)
        self.assertEqual(entries, [0, 1, 0])
        self.assertEqual(run.last.decision.fields, {"tokenizer": "object 1"})
        if SIZE > 1:  # the last rank has met them in another order
            with self.assertRaisesRegex(lockstep.ConstantMismatch, "tokenizer") as caught:
                run(x, second if LAST else first)
            self.assertEqual(caught.exception.ranks[-1], (str(SIZE - 1), "object 2"))
        # An object that is gone is not kept, and another one in its place is not taken for it.
        gone = weakref.ref(second)
        del second, tokenizer
        gc.collect()
        self.assertIsNone(gone())
        run(x, Tokenizer(2))
        self.assertEqual((run.last.entry, run.last.decision.fields), (2, {"tokenizer": "object 3"}))

        run = lockstep.agreed(step, GROUP, name="keys", observe=lambda x, tokenizer: {
            "x": x, "tokenizer": lockstep.Opaque(tokenizer, lambda t: f"{t.words} words")})
        entries = []
        for words in (5, 5, 6, 5):
            run(x, Tokenizer(words))
            entries.append(run.last.entry)
        self.assertEqual(entries, [0, 0, 1, 0])
        if SIZE > 1:
            with self.assertRaisesRegex(lockstep.ConstantMismatch, "tokenizer") as caught:
                run(x, Tokenizer(6 if LAST else 5))
            self.assertEqual(caught.exception.ranks[-1], (str(SIZE - 1), "6 words"))
        run(x, Tokenizer(6))
        self.assertEqual(run.last.entry, 1)

    def test_an_object_that_cannot_be_told_apart_is_said_with_its_name(self):
        with self.assertRaisesRegex(TypeError, "t is an object without a key"):
            lockstep.Observation(t=lockstep.Opaque(object))
        with self.assertRaisesRegex(TypeError, "the key of t is of type int"):
            lockstep.Observation(t=lockstep.Opaque(object, lambda value: 7))
        with self.assertRaisesRegex(ValueError, "field t has 1025 bytes"):
            lockstep.Observation(t=lockstep.Opaque(object, "x" * 1025))
        run = lockstep.agreed(lambda t: None, GROUP, name="no references")
        with self.assertRaisesRegex((TypeError, lockstep.BadInput), "t is an object of type list"):
            run(lockstep.Opaque([1]) if LAST else lockstep.Opaque(run))
        run(lockstep.Opaque([1], "a list"))
        self.assertEqual(run.last.decision.fields, {"t": "a list"})


if __name__ == "__main__":
    run_tests()
