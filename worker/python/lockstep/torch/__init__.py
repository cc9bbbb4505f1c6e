"""lockstep in a PyTorch job. One line after init_process_group, and torch.compile is watched:

    torch.distributed.init_process_group("gloo")
    lockstep.torch.watch()

From then on all ranks agree before each compiled frame that they are in the same one and that none
compiles alone, compare the graphs of new versions before they run, and compare the collectives that were
issued since. Where a program needs the ranks themselves, for lockstep.agreed():

    with lockstep.torch.group() as ranks:
        step = lockstep.agreed(train_step, ranks)
        while ranks.more(have_batch):
            step(batch)
"""

from .compile import compile
from .rendezvous import group
from .watch import Watch, watch

__all__ = ["Watch", "compile", "group", "watch"]
