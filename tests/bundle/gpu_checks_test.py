#!/usr/bin/env python3
"""The script of the GPU checks (scripts/gpu-checks) with programs that stand for the real ones: cut at
every step it leaves what was found so far; steps fail, run out of time or are skipped for a reason.

usage: GPU_CHECKS=FILE gpu_checks_test.py [unittest's options]
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(os.environ["GPU_CHECKS"])
STEPS = ["find", "kernel", "nvrtc", "ops", "products", "recordings", "nccl", "train_1", "train_4", "sanitizer",
         "bench", "counts", "torch"]

# Says which step it is called for, and does what the test has put down for that step.
STAND_IN = r"""#!/usr/bin/env bash
name=$(basename "$0")
case "$name $*" in
  "lockstep doctor"*) step=find ;;
  lockstep*) echo "lockstep 0"; exit 0 ;;
  *OneKernel*tool*|*tool*OneKernel*|compute-sanitizer*) step=sanitizer ;;
  gpu_test*OneKernel*) step=kernel ;;
  gpu_test*Dtypes*) step=ops ;;
  gpu_test*Products*) step=products ;;
  gpu_test*Recordings*) step=recordings ;;
  nvrtc_test*) step=nvrtc ;;
  gpu_data_test*) step=nccl ;;
  run-ranks*counts_bench*) step=counts ;;
  run-ranks*" 1 "*) step=train_1 ;;
  run-ranks*" 4 "*) step=train_4 ;;
  gpu_bench*) step=bench ;;
  python3*) step=torch ;;
esac
told=$(dirname "$0")/../told/$step
[ ! -e "$told" ] || . "$told"
while [ $# -gt 0 ]; do
  case $1 in
    --losses) for i in $(seq 20); do echo "$i.5"; done >"$2" ;;
    --out) echo '{"benchmarks": []}' >"$2" ;;
    --benchmark_list_tests=true) printf 'copy/a\nsum/b\n'; exit 0 ;;
    --benchmark_out=*)
      printf '{\n  "context": {},\n  "benchmarks": [\n    {\n      "name": "x",\n      "fraction": 9.1e-01\n    }\n  ]\n}\n' >"${1#*=}" ;;
  esac
  shift
done
case $step in
  find)
    printf '{\n "format": "lockstep.doctor/1",\n "ok": true,\n "checks": [\n'
    for check in cuda nvrtc cublas nccl; do
      printf '  {\n   "name": "%s",\n   "status": "%s",\n   "detail": "%s"\n  }%s\n' $check "${status:-ok}" "1 device, \\\"$check\\\" C:\\\\x" \
        "$([ $check = nccl ] || echo ,)"
    done
    printf ' ]\n}\n' ;;
  *) printf '[  PASSED  ] 3 tests.\n' ;;
esac
"""


class GpuChecks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("bin", "told", "path", "share/lockstep/text"):
            (self.folder / name).mkdir(parents=True)
        shutil.copy(SCRIPT, self.folder / "test-gpu")
        for name in ("lockstep", "run-ranks", "nvrtc_test", "gpu_test", "gpu_data_test", "gpu_bench", "counts_bench",
                     "moe_text"):
            self.stand_in(self.folder / "bin" / name)
        for name in ("compute-sanitizer", "python3"):
            self.stand_in(self.folder / "path" / name)
        (self.folder / "share/lockstep/gpu_torch.py").write_text("")

    @staticmethod
    def stand_in(path):
        path.write_text(STAND_IN)
        path.chmod(0o755)

    def tell(self, step, script):
        (self.folder / "told" / step).write_text(script)

    def start(self, *arguments):
        environment = dict(os.environ, PATH=f"{self.folder}/path:/usr/bin:/bin")
        return subprocess.Popen([self.folder / "test-gpu", self.folder / "results", *arguments], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run_checks(self, *arguments):
        job = self.start(*arguments)
        output, _ = job.communicate(timeout=120)
        return job.returncode, output, self.results()

    def results(self):
        return json.loads((self.folder / "results" / "results.json").read_text())

    def outcomes(self):
        return {step["name"]: step["outcome"] for step in self.results()["steps"]}

    def details(self):
        return {step["name"]: step["detail"] for step in self.results()["steps"]}

    def test_all_steps_in_order_of_what_is_learnt(self):
        code, output, results = self.run_checks()
        self.assertEqual(code, 0, output)
        self.assertEqual([step["name"] for step in results["steps"]], STEPS)
        self.assertEqual(set(self.outcomes().values()), {"passed"}, output)
        self.assertIn("13 passed, 0 failed, 0 skipped", output)
        self.assertEqual(results["doctor"]["checks"][0]["detail"], '1 device, "cuda" C:\\x')
        merged = json.loads((self.folder / "results" / "gpu.json").read_text())
        self.assertEqual(len(merged["benchmarks"]), 2)
        self.assertLessEqual(len(list((self.folder / "results").iterdir())), 8)

    def test_limits_leave_a_minute_of_ten(self):
        script = SCRIPT.read_text()
        plan = dict(line.split() for line in script.split('plan="')[1].split('"')[0].splitlines())
        whole = int(script.split("whole=")[1].split()[0])
        self.assertLessEqual(whole, 535)
        self.assertLessEqual(int(plan["find"]), 30, "the first verdict comes within 30 s")
        # However long those before it take, training is reached.
        self.assertLessEqual(sum(int(plan[step]) for step in STEPS[:STEPS.index("sanitizer")]), whole - 120)

    def test_no_time_left_is_said(self):
        shorter = (self.folder / "test-gpu").read_text().replace("whole=530", "whole=0")
        (self.folder / "test-gpu").write_text(shorter)
        code, output, _ = self.run_checks()
        self.assertEqual(set(self.details().values()) - {"no time was left", "there is no GPU that can be used"}, set())
        self.assertEqual(code, 7, output)

    def test_cut_at_every_step_what_was_found_is_there(self):
        for number, step in enumerate(STEPS):
            kind = (signal.SIGTERM, signal.SIGKILL)[number % 2]
            with self.subTest(step=step, signal=kind.name):
                self.cut(number, kind)

    def cut(self, number, kind):
        step = STEPS[number]
        self.tell(step, f"echo $$ >{self.folder}/pid; exec sleep 300")
        job = self.start()
        self.addCleanup(job.stdout.close)
        deadline = time.monotonic() + 60
        while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text().strip():
            self.assertLess(time.monotonic(), deadline, "the step does not begin")
            time.sleep(0.02)
        stalled = int((self.folder / "pid").read_text())
        job.send_signal(kind)
        job.wait(30)
        outcomes = self.outcomes()
        self.assertEqual([outcomes[name] for name in STEPS[:number]], ["passed"] * number)
        self.assertEqual(outcomes[step], "cut" if kind == signal.SIGTERM else "running")
        self.assertEqual({outcomes[name] for name in STEPS[number + 1:]} - {"not reached"}, set())
        if kind == signal.SIGTERM:
            self.assertEqual(job.returncode, 143)
            deadline = time.monotonic() + 20
            while pathlib.Path(f"/proc/{stalled}/cmdline").exists():
                self.assertLess(time.monotonic(), deadline, "what the step had started is left")
                time.sleep(0.05)
        else:
            os.kill(stalled, signal.SIGKILL)
        (self.folder / "told" / step).unlink()
        (self.folder / "pid").unlink()

    def test_step_beyond_its_time_is_ended_and_the_next_one_begins(self):
        self.tell("kernel", "exec sleep 300")
        code, output, _ = self.run_checks()
        self.assertEqual(code, 1, output)
        self.assertEqual(self.outcomes()["kernel"], "timed out")
        self.assertEqual(self.outcomes()["nvrtc"], "passed")
        self.assertIn("12 passed, 1 failed", output)

    def test_failed_test_is_named(self):
        self.tell("ops", "echo 'gpu_test.cpp:61: Failure'; echo 'sizes 1, 2 differ'; echo '[  FAILED  ] Dtypes/Gpu.Views/f64, where'; exit 1")
        self.tell("products", "echo 'SKIPPED ALOUD: no device'; exit 0")
        self.tell("recordings", "echo '[  PASSED  ] 0 tests.'; exit 0")
        code, output, _ = self.run_checks()
        self.assertEqual(code, 1, output)
        self.assertEqual(self.details()["ops"], "Dtypes/Gpu.Views/f64: sizes 1, 2 differ [ FAILED ] Dtypes/Gpu.Views/f64, where")
        self.assertEqual(self.details()["products"], "SKIPPED ALOUD: no device")
        self.assertEqual(self.outcomes()["recordings"], "failed", "no test ran")

    def test_other_losses_than_the_hosts_fail(self):
        self.tell("train_1", "case \"$*\" in *cuda*) for i in $(seq 20); do echo \"$i.500001\"; done >${@: -1}; exit 0 ;; esac")
        self.tell("train_4", "case \"$*\" in *cuda*) for i in $(seq 19); do echo \"$i.5\"; done >${@: -1}; exit 0 ;; esac")
        code, output, _ = self.run_checks()
        self.assertEqual(code, 1, output)
        self.assertEqual(self.outcomes()["train_1"], "failed", output)
        self.assertEqual(self.outcomes()["train_4"], "failed", "a step less than the host")

    def test_tools_that_do_not_work_here_are_skipped_with_a_reason(self):
        self.tell("sanitizer", "echo 'Device not supported'; exit 1")
        self.tell("torch", "exit 1")
        code, output, _ = self.run_checks()
        self.assertEqual(code, 0, output)
        self.assertEqual(self.details()["sanitizer"], "memcheck does not work here: Device not supported")
        self.assertIn("PyTorch is not installed", self.details()["torch"])
        self.tell("sanitizer", "echo '========= ERROR SUMMARY: 2 errors'; exit 1")
        code, output, _ = self.run_checks()
        self.assertEqual((code, self.outcomes()["sanitizer"]), (1, "failed"), output)

    def test_no_gpu_is_said_and_nothing_else_is_tried(self):
        self.tell("find", "status=warn")
        code, output, _ = self.run_checks()
        self.assertEqual(code, 7, output)
        self.assertEqual(self.outcomes()["find"], "failed")
        self.assertEqual({self.outcomes()[name] for name in STEPS[1:]}, {"skipped"})

    def test_failing_benchmark_is_told_and_the_others_are_taken(self):
        self.tell("bench", "case \"$*\" in *copy/a*) echo 'ERROR OCCURRED: no memory'; exit 0 ;; esac")
        code, output, _ = self.run_checks()
        self.assertEqual((code, self.outcomes()["bench"]), (1, "failed"), output)
        self.assertEqual(self.details()["bench"], "1 benchmarks in gpu.json; copy/a: ERROR OCCURRED: no memory")
        merged = json.loads((self.folder / "results" / "gpu.json").read_text())
        self.assertEqual(len(merged["benchmarks"]), 1)

    def test_wrong_arguments_are_one_sentence(self):
        for arguments in ([], ["a", "b"], ["a", "--large"], ["a", "--bin"], ["a", "--bin", "/nonexistent"]):
            done = subprocess.run([self.folder / "test-gpu", *arguments], capture_output=True, text=True, check=False,
                                  cwd=self.folder)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        shown = subprocess.run([self.folder / "test-gpu", "--help"], capture_output=True, text=True, check=True)
        self.assertIn("usage: test-gpu RESULTS", shown.stdout)


if __name__ == "__main__":
    unittest.main()
