"""One rank of a program of tests/worker/python/incidents with one of the tools that need more than a setting:
incidents_rank.py TOOL SCRIPT"""

import contextlib
import functools
import os
import runpy
import sys


def guards():
    import torch
    torch.compiler.set_enable_guard_collectives(True)


def compile():
    """lockstep.torch.compile() in place of torch's, where it takes what is given."""
    import torch

    import lockstep.torch
    original, own = torch.compile, os.path.dirname(lockstep.torch.__file__)

    def compiled(model=None, **options):
        if sys._getframe(1).f_code.co_filename.startswith(own):
            return original(model, **options)
        if model is None:
            return functools.partial(compiled, **options)
        try:
            return lockstep.torch.compile(model, **{"fullgraph": False, **options})
        except TypeError:  # which says that torch.compile is for this wrapper
            return original(model, **options)
    torch.compile = compiled


def jax():
    """lockstep.jax.watch() where the program has met the other processes."""
    import jax

    import lockstep.jax
    initialize = jax.distributed.initialize

    def initialized(*args, **options):
        initialize(*args, **options)
        lockstep.jax.watch()
    jax.distributed.initialize = initialized


def error():
    """What is for one rank by itself is not said."""
    import lockstep.torch
    lockstep.torch.alone = contextlib.nullcontext


tool, script = sys.argv[1:]
globals()[tool]()
if tool in ("guards", "jax"):
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
else:
    sys.argv = ["lockstep.torch", script]
    runpy.run_module("lockstep.torch", run_name="__main__", alter_sys=True)
