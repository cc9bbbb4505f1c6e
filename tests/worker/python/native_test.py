"""The extension module: what its plans read, against the package's own walk over the same values.
usage: native_test.py FOLDER_OF_PACKAGE [SEED]"""

import collections
import ctypes
import dataclasses
import os
import random
import sys
import types
import unittest
from typing import Any
from unittest import mock

sys.path.insert(0, sys.argv.pop(1))
SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 20261123
import lockstep  # noqa: E402
from lockstep import _library, observation  # noqa: E402
from lockstep.call_site import CallSite, plan_of  # noqa: E402
from lockstep.threads import limit_threads  # noqa: E402
import numpy  # noqa: E402

Point = collections.namedtuple("Point", "x y")
_P64 = ctypes.POINTER(ctypes.c_int64)


@dataclasses.dataclass
class Batch:
    tokens: Any
    weights: Any = None


class FakeTorch:
    """As lockstep sees a tensor of an older torch: sizes and strides by attribute and method."""

    def __init__(self, shape, stride) -> None:
        self.shape, self.dtype, self._stride = shape, "torch.bfloat16", stride

    def stride(self):
        return self._stride


class Exchanging:
    """A tensor of a type with DLPack's table of functions, whose attributes would not tell."""

    def __init__(self, shape, stride=None, bits=32) -> None:
        self.shape, self.dtype, self.bits = shape, "float32", bits
        self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        self.strides_of = None if stride is None else (ctypes.c_int64 * len(stride))(*stride)


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", _P64), ("strides", _P64), ("offset", ctypes.c_uint64)]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))
def _tensor_from_object(value, out):
    out[0].ndim, out[0].code, out[0].bits, out[0].lanes = len(value.sizes), 2, value.bits, 1
    out[0].shape = ctypes.cast(value.sizes, _P64)
    if value.strides_of is not None:
        out[0].strides = ctypes.cast(value.strides_of, _P64)
    return 0


class DlExchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("rest", ctypes.c_void_p * 4),
                ("tensor_from_object", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


_EXCHANGE = DlExchange(1, 3, (ctypes.c_void_p * 4)(),
                       ctypes.cast(_tensor_from_object, ctypes.c_void_p).value, None)
_NAME = b"dlpack_exchange_api"
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
Exchanging.__dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(
    ctypes.addressof(_EXCHANGE), _NAME, None)


class Seen:
    """What the library's functions were given last."""

    values: list = []
    strides: dict = {}


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _P64, ctypes.c_size_t)
def _set_all(_handle, values, count):
    Seen.values, Seen.strides = [values[i] for i in range(count)], {}
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, _P64, _P64)
def _set_sizes(_handle, source, _sizes, strides):
    Seen.strides[source] = strides
    return 0


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class Reading(unittest.TestCase):
    def setUp(self):
        _library.native.bind(_address(_set_all), _address(_set_sizes))

    def read(self, plan, value):
        """As an Observation has it; None: the plan is for another structure."""
        Seen.values, Seen.strides = None, {}
        if plan.read(value) != 0:
            return None
        want = lockstep.Observation(**value)
        ndims = {i: source[3] for i, source in enumerate(want.sources)}
        got = {i: [strides[d] for d in range(ndims[i])] for i, strides in Seen.strides.items()}
        self.assertEqual((Seen.values, got), (want.values, want._strides))
        return want

    def plan(self, value):
        return _library.native.Plan(plan_of(value), 1)

    def draw(self, rng, depth=0):
        """A structure: a function that gives values of it, with sizes and numbers drawn anew."""
        kind = rng.choice(["numpy", "torch", "dlpack", "int", "float", "bool", "same"]
                          + ["list", "tuple", "dict", "data", "named"] * (depth < 3))
        if kind in ("numpy", "torch", "dlpack"):
            ndim = rng.randint(0, 4)
            turned = rng.random() < 0.4

            def tensor():
                shape = tuple(rng.randint(0, 5) for _ in range(ndim))
                array = numpy.zeros(shape, "float32")
                array = array.T if turned else array
                strides = tuple(s // 4 for s in array.strides)
                if kind == "numpy":
                    return array
                return FakeTorch(array.shape, strides) if kind == "torch" else Exchanging(array.shape)
            return tensor
        if kind == "int":
            return lambda: rng.choice([0, 1, -7, 2**63 - 1, -2**63, rng.randint(0, 99)])
        if kind == "float":
            return rng.random
        if kind == "bool":
            return lambda: rng.random() < 0.5
        if kind == "same":
            fixed = rng.choice([None, "mean", "sum"])
            return lambda: fixed
        parts = [self.draw(rng, depth + 1) for _ in range(2 if kind in ("data", "named") else rng.randint(0, 3))]
        if kind == "list":
            return lambda: [part() for part in parts]
        if kind == "tuple":
            return lambda: tuple(part() for part in parts)
        if kind == "dict":
            return lambda: {f"k{i}": part() for i, part in enumerate(parts)}
        made = Batch if kind == "data" else Point
        return lambda: made(*(part() for part in parts))

    def test_random_structures_are_read_as_the_walk_reads_them(self):
        followed = 0
        for run in range(400):
            rng = random.Random(SEED + run)
            parts = [self.draw(rng) for _ in range(rng.randint(1, 4))]
            plan = None
            for call in range(4):
                value = {f"in{i}": part() for i, part in enumerate(parts)}
                if plan is None:
                    plan = self.plan(value)
                with self.subTest(seed=SEED + run, call=call):
                    followed += self.read(plan, value) is not None
        self.assertEqual(followed, 1600)

    def test_another_structure_is_never_read_as_the_one_before(self):
        for one, other in [
                ({"x": 1}, {"x": 1.0}), ({"x": 1}, {"x": True}), ({"x": True}, {"x": 1}),
                ({"x": "mean"}, {"x": "sum"}), ({"x": None}, {"x": 0}), ({"x": [1]}, {"x": (1,)}),
                ({"x": [1]}, {"x": [1, 2]}), ({"x": {"a": 1}}, {"x": {"b": 1}}),
                ({"x": {"a": 1}}, {"x": {"a": 1, "b": 2}}), ({"x": 1}, {"x": 2**63}),
                ({"x": Batch(1, 2)}, {"x": Point(1, 2)}), ({"x": Batch(1)}, {"x": Batch(1, 2)}),
                ({"x": numpy.zeros((2, 3))}, {"x": numpy.zeros((2, 3), "float32")}),
                ({"x": numpy.zeros((2, 3))}, {"x": numpy.zeros(6)}),
                ({"x": numpy.zeros(3)}, {"x": FakeTorch((3,), (1,))}),
                ({"x": Exchanging((2, 3))}, {"x": Exchanging((2, 3), bits=64)}),
                ({"x": Exchanging((2, 3))}, {"x": Exchanging((2, 3, 1))})]:
            with self.subTest(one=one, other=other):
                plan = self.plan(one)
                self.assertIsNotNone(self.read(plan, one))
                self.assertIsNone(self.read(plan, other))
                self.assertIsNotNone(self.read(plan, one))

    def test_strides_of_the_table_of_functions_are_read(self):
        plan = self.plan({"x": Exchanging((2, 3))})
        self.assertEqual(plan.read({"x": Exchanging((2, 3), (1, 2))}), 0)
        self.assertEqual([Seen.strides[0][d] for d in range(2)], [1, 2])
        self.assertEqual(plan.read({"x": Exchanging((2, 3), (3, 1))}), 0)
        self.assertEqual(Seen.strides, {})

    def test_what_no_plan_can_follow_has_none(self):
        for value in (numpy.int64(3), {2}, [numpy.bool_(True)], collections.OrderedDict(a=1), {1: 2}):
            self.assertIsNone(plan_of({"x": value}))

    def test_the_need_of_a_gradient_and_the_layout_come_after_the_sizes(self):
        for kind in (FakeTorch, Exchanging):
            x, y = kind((2, 3), (1, 2)), kind((4,), (1,))
            x.requires_grad, y.requires_grad = True, False
            x.stride, y.stride = lambda: (1, 2), lambda: (1,)
            value = {"x": x, "n": 7, "y": y}
            walked = lockstep.Observation.of(value, whole=True)
            self.assertEqual(walked.names(), [
                "x", "x.requires_grad", "x.layout", "n", "y", "y.requires_grad", "y.layout"])
            self.assertEqual(walked.values, [2, 3, 1, 21, 7, 4, 0, 1])
            plan = _library.native.Plan(plan_of(value, True), 1)
            self.assertEqual(plan.read(value), 0)
            self.assertEqual(Seen.values, walked.values)
            self.assertEqual(set(Seen.strides), {0})
            y.requires_grad = True
            self.assertEqual(plan.read(value), 0)
            self.assertEqual(Seen.values, [2, 3, 1, 21, 7, 4, 1, 1])
            del y.requires_grad
            self.assertEqual(plan.read(value), -1)

    def test_layouts_are_those_of_memory_laid_out_by_hand(self):
        for sizes, strides, layout in [((2, 3), (3, 1), 12), ((2, 3), (1, 2), 21), ((7,), (1,), 1), ((7,), (2,), 0),
                                       ((2, 3, 4, 5), (60, 1, 15, 3), 1342), ((2, 1, 4, 5), (20, 1, 5, 1), 1342),
                                       ((1, 3), (3, 1), 12), ((1, 3), (1, 1), 21), ((2, 3), (0, 1), 0),
                                       ((2, 3), (6, 1), 0), ((0, 3), (3, 1), 12), ((1,) * 10, (1,) * 10, 1),
                                       ((2,) * 10, tuple(1 << d for d in range(10)), 0)]:
            self.assertEqual(observation.native.layout_of(list(sizes), list(strides)), layout, (sizes, strides))

    def test_random_layouts_are_read_as_the_walk_finds_them(self):
        rng = random.Random(SEED)
        for _ in range(2000):
            ndim = rng.randint(1, rng.choice([3, 11]))
            sizes = [rng.choice([0, 1, 1, 2, 3]) for _ in range(ndim)]
            order = rng.sample(range(ndim), ndim)
            strides, step = [0] * ndim, 1
            for dim in reversed(order):
                strides[dim] = step if rng.random() < 0.95 else rng.randint(0, 7)
                step *= max(sizes[dim], 1)
            for kind in (FakeTorch, Exchanging):
                x = kind(tuple(sizes), tuple(strides))
                x.requires_grad, x.stride = False, lambda: tuple(strides)
                walked = lockstep.Observation.of({"x": x}, whole=True)
                plan = _library.native.Plan(plan_of({"x": x}, True), 1)
                self.assertEqual(plan.read({"x": x}), 0)
                self.assertEqual(Seen.values, walked.values, (sizes, strides))

    def test_nothing_is_kept_of_what_was_read(self):
        value = {"x": [numpy.zeros((2, 3)), 5, Batch(FakeTorch((1,), (1,)))]}
        plan = self.plan(value)
        tensor = value["x"][0]
        before = sys.getrefcount(tensor), sys.getrefcount(value)
        for _ in range(100):
            plan.read(value)
        self.assertEqual((sys.getrefcount(tensor), sys.getrefcount(value)), before)


class Answers(unittest.TestCase):
    def test_bools_come_back_and_a_class_is_raised_where_python_goes_on(self):
        said = []
        answer = _library.native.answering(lambda found: said.append(found) or found)
        self.assertEqual((answer(True), answer(False), said), (True, False, [True, False]))

        class Odd(Exception):
            pass
        raising = _library.native.answering(lambda found: Odd)

        def goes_on():
            return "not reached"
        with self.assertRaises(Odd):
            raising(False)
            goes_on()

    def test_an_interrupt_is_passed_on(self):
        def interrupted(_found):
            raise KeyboardInterrupt

        def goes_on():
            return "not reached"
        with self.assertRaises(KeyboardInterrupt):
            _library.native.answering(interrupted)(True)
            goes_on()

    def test_a_function_that_raises_counts_as_yes(self):
        def fails(_found):
            raise ValueError("seen by nobody")
        hook, sys.unraisablehook = sys.unraisablehook, lambda seen: None
        try:
            self.assertIs(_library.native.answering(fails)(False), True)
        finally:
            sys.unraisablehook = hook


class Functions(unittest.TestCase):
    """What goes into the functions of the library, and comes out, by the types of their parameters."""

    def test_outputs_follow_the_code(self):
        code, handle = _library.lib.observation_create()
        self.assertEqual(code, 0)
        self.addCleanup(_library.lib.observation_free, handle)
        self.assertEqual(_library.lib.observe_tensor(handle, "x", 8, 2), (0, 0))
        self.assertEqual(_library.lib.observe_int(handle, b"n", ), (0, 1))
        self.assertEqual(_library.lib.set_all(handle, [3, 4, 5]), 0)
        self.assertEqual(_library.lib.set_sizes(handle, 0, (3, 4), None), 0)
        self.assertEqual(_library.lib.observe_field(handle, "f", 3, 0), (0, 0))
        self.assertEqual(_library.lib.set_field_bytes(handle, 0, b"a\0b"), 0)

    def test_what_the_library_refuses_is_a_code(self):
        code, handle = _library.lib.observation_create()
        self.addCleanup(_library.lib.observation_free, handle)
        for value in (2**40, -2**40):  # no dtype has such a number, cut to 32 bits or not
            self.assertNotEqual(_library.lib.observe_tensor(handle, "x", value, 2)[0], 0)
        self.assertNotEqual(_library.lib.set_all(handle, [1]), 0)
        self.assertNotEqual(_library.lib.set_all(None, []), 0)
        self.assertIn("NULL", _library.lib.report_text(_library.lib.last_error()))

    def test_what_is_no_argument_is_a_type_error(self):
        lib = _library.lib
        code, handle = lib.observation_create()
        self.addCleanup(lib.observation_free, handle)
        for call in (lambda: lib.observation_free(), lambda: lib.observation_free(handle, 1), lambda: lib.set_all(handle, 3),
                     lambda: lib.set_all(handle, ["3"]), lambda: lib.observe_int(handle, 3), lambda: lib.busy(handle, "1"),
                     lambda: lib.fingerprint_of("text"), lambda: lib.agreement_create(None, "world", (0, 1, 1, 8)),
                     lambda: lib.build_kept(None, (1,)), lambda: lib.controller_put(None, [(1, (2,))], "x")):
            with self.assertRaises(TypeError):
                call()
        with self.assertRaises(OverflowError):
            lib.set_field_int(handle, 0, 2**64)

    def test_text_that_is_no_utf8_is_replaced(self):
        code, handle = _library.lib.observation_create()
        self.addCleanup(_library.lib.observation_free, handle)
        self.assertEqual(_library.lib.observe_int(handle, "a\ud800"), (0, 0))
        self.assertEqual(_library.lib.observe_int(handle, "a\ud800")[0] != 0, True)
        self.assertIn("a\\ud800", _library.lib.report_text(_library.lib.last_error()))

    def test_a_fingerprint_is_two_numbers(self):
        high, low = _library.lib.fingerprint_of(b"frames")
        self.assertNotEqual((high, low), _library.lib.fingerprint_of(b"frame"))
        self.assertTrue(0 < high < 2**64 and 0 < low < 2**64)

    def test_a_library_that_is_none_is_said(self):
        with self.assertRaisesRegex(OSError, "no_such_library"):
            _library.native.load(b"/no_such_library.so")
        with self.assertRaisesRegex(OSError, "has no function lockstep_abi"):
            _library.native.load(b"libm.so.6")


class Sites(unittest.TestCase):
    def test_most_recent_structure_first_and_the_oldest_goes(self):
        lib = _library.lib
        _library.native.bind(lib.set_all.__self__, lib.set_sizes.__self__)
        site = CallSite()
        values = [{"x": [1] * n} for n in range(1, 19)]
        for value in values:
            self.assertIsNone(site.read(value))
            site.learn(value, lockstep.Observation(**value))
        self.assertIsNone(site.read(values[0]))
        self.assertIsNone(site.read(values[1]))
        self.assertEqual({site.read(value) is None for value in values[2:]}, {False})
        site.free()


class Threads(unittest.TestCase):
    def test_threads_are_limited_to_a_ranks_share(self):
        class Library:
            internal_api = "openblas"

            def __init__(self, threads):
                self.num_threads = threads

            def set_num_threads(self, threads):
                self.num_threads = threads
        libraries = [Library(1), Library(10**6)]
        fake = types.SimpleNamespace(ThreadpoolController=lambda: types.SimpleNamespace(lib_controllers=libraries))
        with mock.patch.dict(sys.modules, threadpoolctl=fake), mock.patch.dict(os.environ, {"OMP_NUM_THREADS": "3"}):
            limit_threads(2)
            self.assertEqual([library.num_threads for library in libraries], [1, 10**6], "the environment says how many")
            for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
                os.environ.pop(name, None)
            limit_threads(2)
        share = max(1, min(len(os.sched_getaffinity(0)), os.cpu_count() // 2))
        self.assertEqual([library.num_threads for library in libraries], [1, share])


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(verbosity=2)
