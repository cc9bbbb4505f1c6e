"""lockstep in a PyTorch job. One line after init_process_group, and torch.compile is watched:

    torch.distributed.init_process_group("gloo")
    lockstep.torch.watch()

From then on each collective of any process group is compared with those of the other ranks before it is issued, and
what a rank compiles is told to them; nobody waits for that. Where a program needs the ranks themselves, for lockstep.agreed():

    with lockstep.torch.group() as ranks:
        step = lockstep.agreed(train_step, ranks)
        while ranks.more(have_batch):
            step(batch)
"""

from .compile import compile
from .rendezvous import group
from .watch import Watch, watch

__all__ = ["Watch", "compile", "group", "watch"]
