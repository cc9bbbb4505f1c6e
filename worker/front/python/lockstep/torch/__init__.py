"""lockstep in a PyTorch job. One line after init_process_group, and torch.compile is watched:

    torch.distributed.init_process_group("gloo")
    lockstep.torch.watch()

From then on each collective of any process group is compared with those of the other ranks before it is issued, and
ranks report to each other what they compile. No rank waits for the comparison or the reports. lockstep.agreed() needs
the ranks as a group:

    with lockstep.torch.group() as ranks:
        step = lockstep.agreed(train_step, ranks)
        while ranks.more(have_batch):
            step(batch)
"""

import sys as _sys

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"lockstep.torch needs PyTorch, 2.8 or newer; install it for {_sys.executable} [{error}]") from None

from .compile import compile
from .rendezvous import group
from .watch import Watch, alone, watch

__all__ = ["Watch", "alone", "compile", "group", "watch"]
