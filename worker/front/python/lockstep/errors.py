"""Codes of the library as exceptions: FRAME_MISMATCH is FrameMismatch, and so on."""

from __future__ import annotations

import re
from typing import Dict, NamedTuple, Tuple, Type

from ._library import CODES, NUMBERS, lib


class Finding(NamedTuple):
    """What an audit found, or the contents of an error."""

    code: str
    message: str
    source: str
    #: One row per distinct value: ranks as ranges ("0-2,7") and the value.
    ranks: Tuple[Tuple[str, str], ...]
    #: Code, message and table in one line.
    text: str


def finding_of(report: int) -> Finding:
    rows = tuple((lib.report_ranks(report, i), lib.report_value(report, i)) for i in range(lib.report_rows(report)))
    return Finding(CODES[lib.report_code(report)], lib.report_message(report), lib.report_source(report), rows,
                   lib.report_text(report))


class Error(Exception):
    """The error of a call; the same on all ranks if the call was collective. There is a subclass for every code:
    FRAME_MISMATCH is lockstep.FrameMismatch, and so on."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        #: The contents of the error. The attributes below are its parts.
        self.finding = finding
        self.code = finding.code
        self.message = finding.message
        #: The input that caused the error ("tokens.size(0)"), or "".
        self.source = finding.source
        #: The table by ranks: (("0-2", "8"), ("3", "9")).
        self.ranks = finding.ranks
        #: The exit code that the process should use.
        self.exit_code: int = lib.exit_code(NUMBERS[finding.code])

    def __str__(self) -> str:
        return self.finding.text  # without the rank-specific text that torch adds to an exception's arguments


class AbsentRanks(Error):
    """Some ranks did not make a call."""


class FrameMismatch(Error):
    """Ranks are in different calls."""


class SourceMismatch(Error):
    """Ranks have different inputs."""


class KindMismatch(Error):
    """An input is a tensor on one rank and a number on another."""


class DtypeMismatch(Error):
    """A tensor's dtype differs between ranks."""


class NdimMismatch(Error):
    """A tensor's number of dims differs between ranks."""


class ConstantMismatch(Error):
    """A bool, or a number that has to be equal, differs between ranks."""


class MarkConflict(Error):
    """Ranks mark a dim in ways that exclude each other."""


class ConstraintViolation(Error):
    """A size breaks a mark or a declared relation."""


class BranchDivergence(Error):
    """A guard of a new version holds on some ranks only."""


class GraphDivergence(Error):
    """Ranks have built, or are about to run, different programs."""


class ConfigMismatch(Error):
    """Settings or builds differ between ranks."""


class TraceError(Error):
    """Tracing failed on a rank."""


class CompileError(Error):
    """Building a version failed on a rank."""


class RuntimeAssert(Error):
    """The wrapped function, or a check, failed on a rank."""


class Gone(Error):
    """A rank has left; the group is over."""


class Stuck(Error):
    """A rank made no progress within the deadline; the group is over."""


class RankLost(Error):
    """The process of a rank ended; the group is over."""


class BadInput(Error):
    """Arguments or inputs of a rank are wrong."""


class Version(Error):
    """The ranks run different versions of lockstep."""


class Environment(Error):
    """Something is missing on this machine."""


class Internal(Error):
    """A bug of lockstep."""


def _code(error: Type[Error]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).upper()


#: Code name to exception class.
ERRORS: Dict[str, Type[Error]] = {_code(error): error for error in Error.__subclasses__()}


def check(code: int) -> None:
    if code != 0:
        finding = finding_of(lib.last_error())
        raise ERRORS.get(finding.code, Error)(finding)


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
