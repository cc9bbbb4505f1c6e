"""lockstep for Python: all ranks of a job agree before each call of a function, or fail together.

    from mpi4py import MPI
    import lockstep

    with lockstep.Group(MPI.COMM_WORLD, deadline=60) as group:
        step = lockstep.agreed(train_step, group)        # wraps any callable
        while group.more(have_batch):
            step(batch)                                  # the ranks agree, then train_step(batch) runs

    batch = lockstep.agree(max=len(requests))            # a few words that all ranks share

The package calls the C library liblockstep (lockstep.h has the contract), which it looks for in
$LOCKSTEP_LIBRARY, beside itself, one and two folders up, and where the system keeps libraries. mpi4py is
needed only for a Group made from a communicator. numpy arrays and torch tensors are recognised by their
`shape` and `dtype`.

Functions marked collective must be called by every rank in the same order, and raise the same error on all
ranks. After such an error the next call works, unless the error is Gone, Stuck or RankLost; Group.resync() helps
ranks that have made different calls. A group takes one call at a time, from any thread. The watchdog names a
missing rank and ends the process after the group's deadline with exit code 4 or 5.
"""

from ._library import ABI, CODES
from .agreement import Agreed, Agreement, Build
from .controller import Controller, Program, RemoteTensor
from .decision import Decision, Symbol
from .errors import (
    AbsentRanks, BadInput, BranchDivergence, CompileError, ConfigMismatch, ConstantMismatch,
    ConstraintViolation, DtypeMismatch, ERRORS, Environment, Error, Finding, FrameMismatch,
    Gone, GraphDivergence, Internal, KindMismatch, MarkConflict, NdimMismatch, RankLost,
    RuntimeAssert, SourceMismatch, Stuck, TraceError, Version,
)
from .group import Group
from .objects import Opaque
from .observation import Observation
from .words import Ahead, agree, agree_ahead
from .wrappers import agreed, audited

__all__ = [
    "ABI", "AbsentRanks", "Agreed", "Agreement", "Ahead", "BadInput", "BranchDivergence", "Build",
    "CODES", "CompileError", "ConfigMismatch", "ConstantMismatch", "ConstraintViolation",
    "Controller", "Decision", "DtypeMismatch", "ERRORS", "Environment", "Error", "Finding",
    "FrameMismatch", "Gone", "GraphDivergence", "Group", "Internal", "KindMismatch",
    "MarkConflict", "NdimMismatch", "Observation", "Opaque", "Program", "RankLost",
    "RemoteTensor", "RuntimeAssert", "SourceMismatch", "Stuck", "Symbol", "TraceError",
    "Version", "agree", "agree_ahead", "agreed", "audited",
]
