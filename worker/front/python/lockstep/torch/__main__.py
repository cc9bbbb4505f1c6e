"""Runs an unchanged script of PyTorch under watch(), from its init_process_group() on:

    torchrun … -m lockstep.torch SCRIPT [ARGUMENT...]
    torchrun … -m lockstep.torch -m MODULE [ARGUMENT...]

LOCKSTEP_WATCH is the policy: recompile (default), audit or error. LOCKSTEP_DEADLINE_SECONDS is the deadline.
LOCKSTEP_LOG=info shows differences that make no rank wait. If the script calls watch() itself, that call's parameters
apply. Processes that the script starts are not watched (mp.spawn: call lockstep.torch.watch() in the function that
they run)."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import runpy
import sys
import types
from typing import Any, List, NoReturn, Optional, Type

import torch.distributed as dist

from .watch import POLICIES, begin_for_script


def _fail(message: str) -> NoReturn:
    print(f"lockstep.torch: {message}", file=sys.stderr)
    sys.exit(2)


def _deadline() -> float:
    given = os.environ.get("LOCKSTEP_DEADLINE_SECONDS", "") or "60"
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        _fail(f"LOCKSTEP_DEADLINE_SECONDS is {given!r}; use a number of seconds, more than 0")
    return seconds


def _show_told() -> None:
    """Shows the log from the level in LOCKSTEP_LOG on, if one of the words in LOCKSTEP_LOG is a level."""
    names = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
    level = next((names[word] for word in os.environ.get("LOCKSTEP_LOG", "").split(",") if word in names), None)
    if level is not None:
        shown = logging.StreamHandler()
        shown.setFormatter(logging.Formatter("lockstep: %(message)s"))
        logger = logging.getLogger("lockstep.torch")
        logger.setLevel(level)
        logger.addHandler(shown)


def _watch_when_begun(policy: str, deadline: float) -> None:
    """Begins the watch at the end of init_process_group(), whichever module the program takes this function from."""
    begin: Any = dist.init_process_group

    @functools.wraps(begin)
    def begin_watched(*args: Any, **kwargs: Any) -> Any:
        done = begin(*args, **kwargs)
        begin_for_script(policy, deadline)
        return done
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and getattr(module, "init_process_group", None) is begin:
            module.init_process_group = begin_watched  # type: ignore[attr-defined]


def _show_from(script: str) -> None:
    """Makes the traceback of an uncaught exception begin at the script's own lines."""
    shown: Any = sys.excepthook

    def show(kind: Type[BaseException], error: BaseException, trace: Optional[types.TracebackType]) -> None:
        users = trace
        while users is not None and users.tb_frame.f_code.co_filename != script:
            users = users.tb_next
        if users is not None or isinstance(error, SyntaxError):  # no line of a script with a SyntaxError has run
            error, trace = error.with_traceback(users), users
        shown(kind, error, trace)
    sys.excepthook = show


def _run_script(given: str) -> None:
    script = os.path.abspath(given)
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as error:
        _fail(f"{given} cannot be read: {error.strerror}")
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path[0] = os.path.dirname(script)
    module = types.ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module  # where multiprocessing and pickle find the script's names
    _show_from(script)
    exec(compile(source, script, "exec"), vars(module))


def _run_module(name: str) -> None:
    try:
        found = importlib.util.find_spec(name)
    except ImportError as error:
        _fail(f"the module {name} was not found: {error}")
    if found is None or found.origin is None:
        _fail(f"the module {name} was not found")
    _show_from(found.origin)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def main(arguments: List[str]) -> None:
    policy = os.environ.get("LOCKSTEP_WATCH", "") or POLICIES[0]
    if policy not in POLICIES:
        _fail(f"LOCKSTEP_WATCH is {policy!r}; use one of " + ", ".join(POLICIES))
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return
    is_module = arguments[:1] == ["-m"]
    given = arguments[1:] if is_module else arguments
    if not given or given[0].startswith("-"):
        _fail(f"{given[0]} is no option" if given else "give the script that is to be run; --help says how")
    sys.argv = given
    _show_told()
    _watch_when_begun(policy, _deadline())
    (_run_module if is_module else _run_script)(given[0])


if __name__ == "__main__":
    main(sys.argv[1:])
