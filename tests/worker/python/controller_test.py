"""lockstep.Controller with real workers: a program that ranks have saved gives what it gave them, to the bit.
usage: controller_test.py FOLDER_OF_PACKAGE MPIRUN WORKER_PROGRAM SPMD_RANK LARGE_PROGRAM NUMBER_OF_WORKERS"""

import array
import gc
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PACKAGE, MPIRUN, WORKER, SPMD_RANK, LARGE = sys.argv[1:6]
N = int(sys.argv[6])
del sys.argv[1:]
sys.path.insert(0, PACKAGE)
import lockstep  # noqa: E402

import numpy  # noqa: E402

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="controller-test-"))
os.environ["LOCKSTEP_COORDINATOR"] = "off"
STEPS = 12


def drawn(shape, seed):
    """As tests/worker/controller/training_step.h draws."""
    out = []
    for _ in range(int(numpy.prod(shape, dtype=int))):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((seed >> 40) / 16777216.0 - 0.5)
    return numpy.array(out).reshape(shape)


def rows(rank, step):
    return 1 if step == 6 and rank == 0 else 2 + (3 * rank + 5 * step) % 7


def batch(step):
    x = [drawn((rows(rank, step), 3), 1000 + 17 * (rank * 100 + step)) for rank in range(N)]
    y = [drawn((rows(rank, step), 1), 2000 + 13 * (rank * 100 + step)) for rank in range(N)]
    return x, y


def first_layers(put):
    return [{"weight": put(drawn((3, 4), 1)), "bias": put(drawn((4,), 2))},
            {"weight": put(drawn((4, 1), 3)), "bias": put(drawn((1,), 4))}]


class Workers:
    def __init__(self):
        self.file = FOLDER / f"address-{time.monotonic_ns()}"
        self.process = subprocess.Popen([MPIRUN, "-t", "100", "-n", str(N), WORKER, "--address-file", str(self.file)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while not self.file.exists() and time.monotonic() < end:
            time.sleep(0.01)

    def connect(self, **options):
        return lockstep.Controller(self.file, **options)

    def pids(self):
        """Of the workers, by rank."""
        found, parents = [], {self.process.pid}
        pids = sorted(int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit())
        for pid in pids * 3:
            try:
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if int(stat.rsplit(")", 1)[1].split()[1]) in parents:
                parents.add(pid)
                if stat.split("(", 1)[1].startswith("lockstep_worker") and pid not in found:
                    found.append(pid)
        rank = re.compile(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)")
        return sorted(found, key=lambda pid: int(rank.search(pathlib.Path(f"/proc/{pid}/environ").read_bytes())[1]))

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=60)


def memory(pid, name):
    """MiB of a process."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))


class ControllerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = FOLDER / "step.lsp"
        told = subprocess.run([MPIRUN, "-t", "100", "-n", str(N), SPMD_RANK, str(cls.program)], check=True,
                              capture_output=True, text=True).stdout
        cls.losses = [float.fromhex(line.split()[1]) for line in told.splitlines() if line.startswith("loss ")]
        assert len(cls.losses) == STEPS, told

    def setUp(self):
        self.workers = Workers()
        self.addCleanup(self.workers.end)

    def test_a_call_while_another_threads_is_under_way_is_refused(self):
        said = []

        def second():
            for call in (lambda: c.put(1.0), c.settle, x.fetch, x.sizes, c.finish, c.take_over, c.close,
                         lambda: c.load(self.program), lambda: c.read("x", ["x"])):
                try:
                    said.append(call())
                except lockstep.BadInput as error:
                    said.append(error)

        def on_another_thread():
            thread = threading.Thread(target=second, name="second")
            thread.start()
            thread.join()

        with self.workers.connect() as c:
            x = c.put(2.5)
            with c._waiting():  # as around each call of the library
                on_another_thread()
            self.assertEqual(len(said), 9)
            for error in said:
                self.assertIsInstance(error, lockstep.BadInput)
                self.assertIn("thread 'second' makes a call while one of thread 'MainThread' is under way, and a "
                              "controller takes one call at a time", error.message)
            self.assertEqual(float(x.fetch()), 2.5)
            threading.Thread(target=c.settle).start()
            for thread in threading.enumerate():
                if thread is not threading.current_thread():
                    thread.join()

    def test_training_gives_the_losses_of_ranks_without_a_controller(self):
        with self.workers.connect() as c:
            self.assertEqual(c.workers, N)
            step = c.load(self.program)
            self.assertIn("x f64 of 2 dims", repr(step))
            layers, losses = first_layers(c.put), []
            for s in range(STEPS):
                x, y = batch(s)
                box = {"x": c.put(x), "y": c.put(y), "layers": layers, "rate": 0.1 if s < 8 else 0.04, "seen": s,
                       "squared": s % 4 != 3}
                out = step.call_boxed(box)
                self.assertEqual((box, layers), ({}, []))
                layers = out["layers"]
                losses.append(out["loss"])
            self.assertEqual([float(loss.fetch()) for loss in losses], self.losses)
            self.assertEqual([float(losses[-1].fetch(worker)) for worker in range(N)], self.losses[-1:] * N)
        self.assertEqual(self.workers.process.wait(60), 0)

    def test_tensors_of_every_kind_come_back_as_they_went(self):
        c = self.workers.connect()
        for dtype in ("bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"):
            there = (numpy.arange(24).reshape(2, 3, 4) % 5).astype(dtype)
            back = c.put(there).fetch(N - 1)
            self.assertEqual(back.dtype, there.dtype)
            self.assertTrue((back == there).all())
        turned = numpy.arange(6.0).reshape(2, 3).T
        self.assertTrue((c.put(turned).fetch() == turned).all())
        self.assertEqual(c.put(array.array("d", [1, 2.5])).fetch().tolist(), [1, 2.5])
        for number in (True, 7, 2.5):
            self.assertEqual(c.put(number).fetch().item(), number)
        own = c.put([numpy.full((w + 1, 2), w, "f4") for w in range(N)], "own rows")
        self.assertEqual((own.dtype, own.label), ("f32", "own rows"))
        self.assertEqual(own.sizes(), [(w + 1, 2) for w in range(N)])
        self.assertEqual(own.fetch(N - 1).tolist(), [[N - 1.0] * 2] * N)
        self.assertEqual(repr(own), f"<own rows: f32 on {N} workers>")
        self.assertEqual(c.put(numpy.zeros((0, 3))).sizes(), [(0, 3)] * N)

        class Torch:  # as lockstep sees a tensor of bf16
            shape, dtype, device, bits = (2,), "torch.bfloat16", "cpu", array.array("H", [0x3FC0, 0xC000])
            detach = contiguous = lambda self: self

            def data_ptr(self):
                return self.bits.buffer_info()[0]

        back = c.put(Torch())
        self.assertEqual((back.dtype, back.fetch().tolist()), ("bf16", [1.5, -2.0]))
        c.finish()

    def test_what_is_wrong_is_said_and_the_next_call_works(self):
        c = self.workers.connect()
        step = c.load(self.program)
        x, y = batch(0)
        good = {"x": c.put(x), "y": c.put(y), "layers": first_layers(c.put), "rate": 0.1, "seen": 0, "squared": True}
        for change, text in (({"x": None}, "x is of type NoneType, which is no tensor"),
                             ({"x": c.put(numpy.zeros((2, 3), "f4"))}, "takes x f64 of 2 dims, and is given a tensor"),
                             ({"seen": 0.5}, "takes seen int, and is given a float"),
                             ({"z": 1}, "the program has no input z; it takes ")):
            with self.assertRaisesRegex((TypeError, lockstep.BadInput), text):
                step(**{**good, **change})
        with self.assertRaisesRegex(lockstep.BadInput, "the input rate float is missing"):
            step(**{name: value for name, value in good.items() if name != "rate"})
        with self.assertRaisesRegex(TypeError, "dtype complex128"):
            c.put(numpy.zeros(3, complex))
        with self.assertRaisesRegex(ValueError, f"{N + 1} tensors are put on {N} workers"):
            c.put([1.0] * (N + 1))
        with self.assertRaisesRegex(lockstep.BadInput, f"there is no worker {N}"):
            good["x"].fetch(N)
        with self.assertRaises(lockstep.BadInput):
            c.load(FOLDER / "none.lsp")
        with self.assertRaisesRegex(lockstep.BadInput, "the workers have a controller"):
            self.workers.connect()
        self.assertEqual(float(step(**good)["loss"].fetch()), self.losses[0])
        self.assertEqual(len(good["layers"]), 2)
        c.finish()
        with self.assertRaises(lockstep.Error):
            c.settle()
        with self.assertRaisesRegex(lockstep.Environment, "cannot be read|no such|No such"):
            lockstep.Controller(FOLDER / "none")

    def test_a_boxed_tensor_is_freed_and_the_next_controller_has_the_rest(self):
        c = self.workers.connect()
        step = c.load(self.program)
        x, y = batch(0)
        rest = {"layers": first_layers(c.put), "rate": 0.1, "seen": 0, "squared": True}
        kept = c.put(x, "kept")
        step(x=kept, y=c.put(y, "gone with its call"), **rest)
        step.call_boxed({"x": c.put(x, "boxed"), "y": c.put(y, "boxed, too"), **rest})
        self.assertEqual(rest["layers"], [])
        held = c.put(x, "held by another name")
        step.call_boxed({"x": held, "y": c.put(y), "layers": first_layers(c.put), "rate": 0.1, "seen": 0,
                         "squared": True})
        dropped = c.put(x, "dropped")
        del dropped
        c.settle()
        c.close()
        told = subprocess.run([sys.executable, "-c", f"""
import sys; sys.path.insert(0, {PACKAGE!r})
import lockstep
c = lockstep.Controller({str(self.workers.file)!r})
tensors = {{t.label: t for t in c.take_over()}}
print(sorted(label for label in tensors if "of call" not in label))
print(tensors["kept"].fetch().tolist())
"""], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(told[0], "['held by another name', 'kept']")
        self.assertEqual(told[1], str(x[0].tolist()))
        with self.assertRaisesRegex(lockstep.BadInput, "controller is NULL"):
            c.settle()
        with self.assertRaisesRegex(lockstep.BadInput, "the controller of the program has been freed"):
            step(x=kept, y=kept)
        with self.assertRaises(lockstep.BadInput):
            kept.fetch()
        gc.collect()
        self.workers.connect().finish()

    def test_a_boxed_tensor_is_freed_during_the_run(self):
        rows = 2**23  # 64 MiB
        subprocess.run([LARGE, str(N), str(FOLDER / "large.lsp")], check=True)
        c = self.workers.connect()
        large, seed = c.load(FOLDER / "large.lsp"), c.put(numpy.ones(rows))
        pid = self.workers.pids()[-1]

        def peak(call):
            box = {"x": large(x=seed)["y"]}  # of the workers' own making
            c.settle()
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is what there is now
            before = memory(pid, "VmHWM")
            y = call(box)["y"]
            c.settle()
            after = memory(pid, "VmHWM")
            self.assertEqual(y.fetch(N - 1)[1], rows * rows * (rows + 1.0))
            return after - before

        peak(large.call_boxed)
        # One peak may be off by half a tensor: the system counts pages late, and frees them late.
        boxed = statistics.mean(peak(large.call_boxed) for _ in range(6))
        plain = statistics.mean(peak(lambda box: large(**box)) for _ in range(6))
        self.assertGreater(plain, boxed + 24)
        c.finish()

    def test_ctrl_c_ends_a_wait_and_no_more(self):
        c = self.workers.connect()
        tensor = c.put(numpy.arange(3))
        first = self.workers.pids()[0]
        os.kill(first, signal.SIGSTOP)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        began = time.monotonic()
        try:
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                tensor.fetch()
        finally:
            os.kill(first, signal.SIGCONT)
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(tensor.fetch().tolist(), [0, 1, 2])
        self.assertEqual(c.put(numpy.arange(2)).fetch().tolist(), [0, 1])
        c.finish()

    def test_a_killed_worker_is_named(self):
        c = self.workers.connect(deadline=30)
        tensor = c.put(numpy.arange(3))
        tensor.fetch()
        os.kill(self.workers.pids()[-1], signal.SIGKILL)
        with self.assertRaisesRegex(lockstep.Error, f"[Rr]ank {N - 1}|worker 0") as caught:
            for _ in range(300):
                tensor.fetch()
                time.sleep(0.1)
        self.assertIn(caught.exception.code, ("RANK_LOST", "GONE"))
        with self.assertRaises(type(caught.exception)):
            c.settle()


if __name__ == "__main__":
    try:
        unittest.main()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
