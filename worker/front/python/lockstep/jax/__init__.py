"""lockstep in a JAX job of several processes. One line after jax.distributed.initialize():

    jax.distributed.initialize()
    lockstep.jax.watch()

From then on a computation of several processes is compared with what the other processes run before it runs for the
first time, and ranks that wait for a process that cannot come are told why. No process waits for the comparison."""

import sys as _sys

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"lockstep.jax needs JAX, 0.8 or newer; install it for {_sys.executable} [{error}]") from None

from .watch import Watch, watch

__all__ = ["Watch", "watch"]
