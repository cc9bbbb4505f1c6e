"""What the pages of lockstep/torch say, on real torch: each program of recipes.md runs, quietly; each report of reports.md is what
its program says.

torch_pages_test.py [CASE]..."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from incidents_program import programs
from incidents_run import run
from torch_ranks import HERE, free_port, run_cases

PAGES = HERE.parents[2] / "worker" / "front" / "python" / "lockstep" / "torch"
SCRIPT = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))
assert "lockstep.torch" in __import__("sys").modules
dist.destroy_process_group()
"""


def blocks(page, language):
    """Of code, by the heading that they stand under."""
    found = {}
    for heading, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", (PAGES / page).read_text(), re.M | re.S):
        for code in re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S):
            found[re.sub(r"[^a-z]+", "_", heading.lower()).strip("_")] = code
    return found


def recipe(code):
    def case():
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text(code)
            environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                           "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "LOCKSTEP_LOG": ""}
            ranks = [subprocess.Popen([sys.executable, program], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(2)]
            texts = [rank.communicate(timeout=200)[0] for rank in ranks]
        assert not any(rank.returncode for rank in ranks) and "lockstep" not in "".join(texts), texts
        return "quiet"
    return case


def shell(code):
    def case():
        lines = [line for line in code.splitlines() if "torchtitan" not in line]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "train.py").write_text(SCRIPT)
            (pathlib.Path(folder) / "package").mkdir()
            (pathlib.Path(folder) / "package" / "__init__.py").write_text("")
            (pathlib.Path(folder) / "package" / "train.py").write_text(SCRIPT)
            for line in lines:
                done = subprocess.run(line, shell=True, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
                                      env={**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"})
                assert done.returncode == 0, done.stdout
        return f"{len(lines)} lines"
    return case


def report(name, code):
    def case():
        program = programs()[name]
        with tempfile.TemporaryDirectory() as folder:
            text = run(program, "watch", program.sizes[0], folder).text

        def plain(said):
            return re.sub(r"\d+\.\d+ s\b", "0.0 s", " ".join(said.split()))
        assert plain(code) in plain(text), text
        return "as it stands there"
    return case


CASES = {name: recipe(code) for name, code in blocks("recipes.md", "python").items()}
CASES.update({name: shell(code) for name, code in blocks("recipes.md", "sh").items()})
CASES.update({f"report_{name}": report(name, code) for name, code in re.findall(
    r"<!-- (\w+) -->\n```\n(.*?)^```", (PAGES / "reports.md").read_text(), re.M | re.S)})
run_cases(CASES)
