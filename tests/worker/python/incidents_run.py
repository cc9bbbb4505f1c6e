"""Runs of programs of tests/worker/python/incidents, each with a tool or with none, and what came of them."""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass

from torch_ranks import HERE, free_port

#: Seconds after which what has not ended is a hang.
CUT = 20.0
#: Environment, and how a script is run.
TOOLS = {"bare": ({}, []),
         "detail": ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, []),
         "guards": ({}, [str(HERE / "incidents_rank.py"), "guards"]),
         "jax": ({}, [str(HERE / "incidents_rank.py"), "jax"]),
         "watch": ({"LOCKSTEP_WATCH": "recompile"}, ["-m", "lockstep.torch"]),
         "audit": ({"LOCKSTEP_WATCH": "audit"}, ["-m", "lockstep.torch"]),
         "compile": ({"LOCKSTEP_WATCH": "recompile"}, [str(HERE / "incidents_rank.py"), "compile"]),
         "error": ({"LOCKSTEP_WATCH": "error"}, [str(HERE / "incidents_rank.py"), "error"]),
         "alone": ({"LOCKSTEP_WATCH": "error"}, ["-m", "lockstep.torch"])}
OURS = {"jax", "watch", "audit", "compile", "error", "alone"}
#: What is in front of each line of a rank's that torch shows.
_PREFIX = re.compile(r"^\[rank\d+\]:\s?")
_LACKS = re.compile(r"^(?:ImportError|ModuleNotFoundError|AttributeError|TypeError): (.*)$", re.M)
_REPORT = re.compile(r"\b([A-Z]+(?:_[A-Z]+)*): ")


@dataclass
class Outcome:
    """`codes`: of ranks, None where it was cut; `values`: what each printed of values; `delivered`: a rank got something from
    operations that do not belong together; `seconds`: from the last step that a rank began to the last rank's error (where lockstep
    raises none: its last words), else None;
    `verdicts`: the errors that were raised; `lines`: how many of those that differ were named; `who`: whether the odd rank was;
    `named`: whether group and module were; `text`: what was said."""

    program: str
    tool: str
    size: int
    codes: list
    values: list
    delivered: bool
    hang: bool
    seconds: float
    verdicts: list
    lines: int
    who: bool
    named: bool
    text: str

    @property
    def lacks(self):
        """What this release of torch does not have, so that no step was begun; None: nothing."""
        found = _LACKS.search(self.text)
        return found.group(1) if found and "\nstep" not in "\n" + self.text and all(code == 1 for code in self.codes) else None

    @property
    def word(self):
        """What came of it."""
        if self.lacks:
            return "lacks"
        if self.delivered:
            return "a wrong value"
        if self.hang:
            return "hangs"
        if any(self.codes):
            return "refused" if self.verdicts else "ends"
        return "told" if self.lines else "as if well"

    def as_json(self):
        return {**asdict(self), "outcome": self.word}


class _Rank:
    """Its lines, each with when it came."""

    def __init__(self, command, environment, folder):
        self.process = subprocess.Popen(command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.lines, self.ended = [], None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), _PREFIX.sub("", line.rstrip("\n"))))
        self.process.wait()
        self.ended = time.monotonic()

    def cut(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self._reader.join(5)

    def of(self, word):
        return [(at, line) for at, line in self.lines if line.startswith(word)]


def python_of(framework):
    """The Python that runs programs of a framework; None: there is none that has it. JAX may have an environment of its own."""
    if framework == "torch" or importlib.util.find_spec(framework) is not None:
        return sys.executable
    own = HERE.parents[2] / "build" / framework / "bin" / "python"
    return str(own) if own.exists() else None


def run(program, tool, size, folder, started=60.0):
    """`folder`: for caches and what the program writes. A rank may take `started` seconds to its first line."""
    given, how = TOOLS[tool]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(size),
                   "LOCAL_WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore",
                   "LOCKSTEP_COORDINATOR": "off", "JAX_PLATFORMS": "cpu",
                   "TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(folder) / "inductor"), **given}
    if program.kind == "meaning":
        environment["LOCKSTEP_LOG"] = "info"
    ranks = [_Rank([python_of(program.framework), *how, str(program.path)],
                   {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}, folder) for rank in range(size)]
    quiet_until, cut, begun = time.monotonic() + started, False, time.monotonic()
    while any(rank.ended is None for rank in ranks):
        time.sleep(0.02)
        moved = max([at for rank in ranks for at, _ in rank.lines], default=None)
        if moved is not None:
            quiet_until = max(begun + started if not all(rank.lines for rank in ranks) else 0, moved + CUT)
        if time.monotonic() > quiet_until:
            cut = True
            for rank in ranks:
                if rank.ended is None:
                    rank.cut()
            break
    return _outcome(program, tool, size, ranks, cut)


def _outcome(program, tool, size, ranks, cut):
    from lockstep.errors import ERRORS
    text = "\n".join(line for rank in ranks for _, line in rank.lines)
    reports = [[(at, ERRORS[code].__name__) for at, line in rank.lines for code in _REPORT.findall(line) if code in ERRORS] if tool in OURS
               else [] for rank in ranks]  # frameworks have codes of equal names, as INTERNAL
    codes = [None if cut and rank.process.returncode == -signal.SIGKILL else rank.process.returncode for rank in ranks]
    steps = [at for rank in ranks for at, _ in rank.of("step")]
    ends = [report[0][0] if report else rank.lines[-1][0] for rank, report in zip(ranks, reports)
            if rank.process.returncode and rank.lines]
    named = sum(re.search(rf'{re.escape(program.path.name)}(:|", line ){line}\b', text) is not None for line in program.lines)
    return Outcome(
        program.name, tool, size, codes,
        [[line for _, line in rank.of("value")] for rank in ranks], any(rank.of("delivered") for rank in ranks),
        None in codes, round(max(ends) - max(steps), 2) if steps and ends and not cut else None,
        sorted({name for report in reports for _, name in report}), named,
        program.odd is None or re.search(rf"\brank {program.odd}\b(?!: nothing yet)", text) is not None,
        all(word in text for word in program.named), text)
