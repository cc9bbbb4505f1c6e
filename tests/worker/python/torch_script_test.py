"""python -m lockstep.torch on real torch: an unmodified script is watched, has what Python gives a script, and shows its own lines.

torch_script_test.py [CASE]..."""

import os
import pathlib
import subprocess
import sys
import tempfile

from torch_ranks import free_port, run_cases

SCRIPT = """\
import os, pathlib, sys
import torch
import torch.distributed as dist
from torch.distributed import init_process_group

import beside


class Mine:
    pass


def main():
    init_process_group("gloo")
    rank = dist.get_rank()
    assert sys.modules["__main__"].Mine is Mine and __name__ == "__main__"
    if "own" in sys.argv:
        import lockstep.torch
        print("policy", lockstep.torch.watch("audit")._policy)
    if "none" in sys.argv:
        raise SystemExit(7)
    x = torch.ones(3 + 2 * rank * ("differs" in sys.argv))
    dist.all_reduce(x)  # line 23
    print(f"{sys.argv[1:]} {pathlib.Path(__file__).is_absolute()} {beside.VALUE} {float(x[0])}")
    if "again" in sys.argv:
        dist.destroy_process_group()
        os.environ["MASTER_PORT"] = os.environ["NEXT_PORT"]
        init_process_group("gloo")
        y = torch.ones(3 + 2 * rank)
        dist.all_reduce(y)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


class Job:
    """Ranks of the script, started with these words after -m lockstep.torch."""

    def __init__(self, *words, size=2, **environment):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "train.py").write_text(SCRIPT)
            (pathlib.Path(folder) / "beside.py").write_text("VALUE = 41\n")
            (pathlib.Path(folder) / "broken.py").write_text("x = (\n")
            given = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "NEXT_PORT": free_port(), "WORLD_SIZE": str(size),
                     "OMP_NUM_THREADS": "1", "LOCKSTEP_COORDINATOR": "off", **environment}
            ranks = [subprocess.Popen([sys.executable, "-m", "lockstep.torch", *words], cwd=folder, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, env={**given, "RANK": str(rank)}) for rank in range(size)]
            said = [rank.communicate(timeout=100) for rank in ranks]
        self.out, self.err = [out for out, _ in said], [err for _, err in said]
        self.codes = [rank.returncode for rank in ranks]


def case_well():
    for words in (("train.py", "a", "-b"), ("-m", "train", "a", "-b")):
        job = Job(*words)
        assert job.codes == [0, 0] and job.out == ["['a', '-b'] True 41 2.0\n"] * 2, (job.out, job.err)
        assert not any(job.err), job.err
    return "arguments, folder and names are the script's"


def case_differs():
    job = Job("train.py", "differs")
    assert all(job.codes) and not any(job.out), (job.codes, job.out)
    text = "".join(job.err)
    assert "GRAPH_DIVERGENCE" in text and "train.py:23" in text and "f32[5]" in text, text
    for err in job.err:
        assert "runpy" not in err and "__main__.py" not in err and "train.py" in err, err
    return f"refused, codes {job.codes}"


def case_policy():
    job = Job("train.py", "own")
    assert job.codes == [0, 0] and all("policy audit" in out for out in job.out), (job.out, job.err)
    job = Job("train.py", "differs", LOCKSTEP_WATCH="audit")
    assert any("f32[5]" in err for err in job.err) and all(job.codes), (job.codes, job.err)  # what gloo makes of it
    job = Job("train.py", "none")
    assert job.codes == [7, 7], (job.codes, job.err)
    return "the script's own watch() holds, LOCKSTEP_WATCH is the policy, exit codes are the script's"


def case_again():
    job = Job("train.py", "again")
    assert all(job.codes) and "f32[5]" in "".join(job.err), (job.codes, job.err)
    return "what is begun again is watched"


def case_words():
    for words, environment, says in (
            ((), {}, "give the script"), (("-x",), {}, "-x is no option"), (("missing.py",), {}, "missing.py cannot be read: No such file"),
            (("-m", "no_such"), {}, "the module no_such was not found"), (("-m",), {}, "give the script"),
            (("train.py",), {"LOCKSTEP_WATCH": "of"}, "LOCKSTEP_WATCH is 'of'; use one of recompile, audit, error"),
            (("train.py",), {"LOCKSTEP_DEADLINE_SECONDS": "soon"}, "LOCKSTEP_DEADLINE_SECONDS is 'soon'")):
        job = Job(*words, size=1, **environment)
        assert job.codes == [2] and says in job.err[0] and len(job.err[0].splitlines()) == 1, (words, job.codes, job.err)
    job = Job("broken.py", size=1)
    assert job.codes == [1] and "SyntaxError" in job.err[0] and "runpy" not in job.err[0] and "broken.py" in job.err[0], job.err
    job = Job("--help", size=1)
    assert job.codes == [0] and "LOCKSTEP_WATCH" in job.out[0], job.out
    return "one sentence each, exit code 2"


run_cases({name[5:]: case for name, case in globals().items() if name.startswith("case_")})
