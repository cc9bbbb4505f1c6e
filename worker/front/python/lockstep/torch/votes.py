"""Votes of the ranks before frames: under policy "error", and while ranks make a call of a compile() result together.
Pure: without torch."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Protocol

from ..errors import ERRORS, Error, Finding, FrameMismatch, said
from ..group import Group
from ..observation import Observation
from .frames import UNTRACED, Compile, GraphText
from .nested import readable


class Ballot(Protocol):
    """The interface of ballot.Ballot; tests have a class of their own."""

    group: Group

    def enter(self, name: str, new: bool, issued: List[str]) -> int: ...
    def compare(self, name: str, inputs: Optional[Observation], graph: GraphText, trouble: Optional[str]) -> int: ...
    def all(self, mine: bool) -> bool: ...
    def trouble(self, text: str, code: str = "RUNTIME_ASSERT") -> None: ...
    def finding(self) -> Finding: ...
    def summary(self) -> str: ...


class Notes(Protocol):
    """Notes of collectives that the watched thread has issued."""

    def notes(self) -> List[str]: ...
    def clear(self) -> None: ...


class Watched(Protocol):
    """What votes need of a Watch. Only frames on the thread `thread` are voted on, and only while `within`, the
    number of running calls of this package, is 0."""

    thread: int
    marks: Any

    @property
    def notes(self) -> Notes: ...
    @property
    def within(self) -> int: ...
    def waiting(self, members: List[int], name: str) -> ContextManager[None]: ...
    def votes_begin(self, votes: "FrameVotes") -> None: ...
    def votes_end(self) -> None: ...
    def votes_stand(self) -> bool: ...
    def training(self, graph: GraphText, backwards: Optional[List[Any]]) -> GraphText: ...
    def told(self, finding: Finding) -> None: ...


class _Pending(NamedTuple):
    """An error that the other ranks have raised for a frame, while this rank runs the frame without a graph."""

    error: Error
    code: types.CodeType  # code of that frame


class FrameVotes:
    """The votes of the ranks of a group, on the watched thread. `votes`: number of votes so far. `elsewhere`: number of
    frames that would have been voted on, but ran on other threads."""

    def __init__(self, watch: Watched, ballot: Ballot, members: List[int], raises: bool,
                 name_of: Callable[[types.FrameType], str], passing: Callable[[Error], BaseException]) -> None:
        """`members`: the group's ranks, by their numbers in the job. `raises` (policy "error"): also differences that
        hang no rank are errors, and each collective is voted on. `name_of`: returns the name of the frame that a caller
        is about to run. `passing`: turns an error into one that torch passes on unchanged."""
        self.votes = self.elsewhere = 0
        self.group = ballot.group
        self._watch, self._ballot, self._members, self._raises = watch, ballot, members, raises
        self._name_of, self._passing = name_of, passing
        self._on = int(raises)                  # not 0: frames are voted on
        self._alone = 0                         # number of active alone() blocks
        self._strict = 0                        # number of active strictly() blocks
        self._looked_up: Optional[str] = None   # the frame that was voted on and will compile, until its compile starts
        self._compile: Optional[Compile] = None # the running compile of a frame that was voted on
        self._compared = False                  # the graph of that compile has been compared
        self._pending: Optional[_Pending] = None  # raised by the next vote or collective; see _raise_pending()
        #: Called once in place of the next frame's vote, with whether a version was found. guards_tested() returns its
        #: result.
        self.instead: Optional[Callable[[bool], Any]] = None
        #: Called before a frame that has versions compiles another version; may be None.
        self.on_recompile: Optional[Callable[[], None]] = None
        watch.marks.votes |= int(raises)
        self._asks()

    # What is voted on.

    def __enter__(self) -> None:
        """Inside this context, frames are voted on."""
        self._on += 1
        self._watch.votes_begin(self)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._on -= 1
        self._watch.votes_end()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Inside this context, nothing that this thread does is voted on."""
        self._alone += 1
        self._asks()
        try:
            yield
        finally:
            self._alone -= 1
            self._asks()

    def votes_here(self) -> bool:
        """Returns whether a frame that this thread runs now is voted on."""
        if self._on == 0 or self._alone > 0 or self._watch.within > 0 or not self._watch.votes_stand():
            return False
        if threading.get_ident() == self._watch.thread:
            return True
        self.elsewhere += 1
        return False

    def waiting(self, name: str) -> ContextManager[None]:
        """Returns a context in which peers see that this rank waits for the others in a vote on `name`."""
        return self._watch.waiting(self._members, name.split("[", 1)[0])  # a collective without its sizes, which vary

    @contextlib.contextmanager
    def strictly(self, name: str) -> Iterator[None]:
        """Collective. Inside this context, each collective is voted on before it is issued. The end of the block is
        voted on, too: in that vote an exception of the block becomes the error of all ranks."""
        self._strict += 1
        self._asks()
        try:
            yield
        except Exception as error:
            if not isinstance(error, Error):  # an Error is raised on all ranks already
                self.fails(f"the end of {name}", error)
            raise
        finally:
            self._strict -= 1
            self._asks()
        self._vote(f"the end of {name}", False)

    def fails(self, name: str, error: Exception) -> None:
        """Votes with an error, because this rank cannot run the frame `name`, on which the others are about to vote."""
        self._ballot.trouble(said(error))
        with contextlib.suppress(Error):
            self._vote(name, False)

    def votes_next(self) -> bool:
        """Returns whether the next frame with versions on this thread is voted on, and that vote has nothing else to
        report. So: this is the watched thread, outside alone(); the ranks can vote; no compile is running, no error is
        pending, and no collective has been noted."""
        return (threading.get_ident() == self._watch.thread and self._watch.within == 0 and self._alone == 0
                and self._compile is None and self._pending is None and not self._watch.notes.notes()
                and self._watch.votes_stand())

    def summary(self) -> str:
        return self._ballot.summary()

    # Events of torch.compile.

    def guards_tested(self, found: bool, caller: types.FrameType) -> Any:
        """Called when the guards of the frame that `caller` is about to run have been tested; `found`: a version fits.
        Returns whether the frame may run this version, or the class of an exception that the frame is to raise."""
        if not self.votes_here() or self._compile is not None:
            return True
        instead, self.instead = self.instead, None
        if instead is not None:
            return instead(found)
        try:
            name = self._name_of(caller)
            fresh = self._vote(name, not found)
        except BaseException as error:  # also exceptions of signal handlers
            return _raising(error)
        compiles = not found or (fresh is not False and not self._raises)
        self._looked_up = name if compiles else None
        if compiles and self.on_recompile is not None:
            self.on_recompile()
        return not compiles

    def compile_starts(self, compiled: Compile) -> None:
        instead, self.instead = self.instead, None
        if instead is not None:  # torch has dropped the frame's versions
            raise self._passing(instead(False)())
        name = "a frame" if compiled.caller is None else self._name_of(compiled.caller)
        looked_up, self._looked_up = self._looked_up, None
        try:
            if looked_up != name:  # this rank has no version of the frame yet
                self._vote(name, True)
        except Error as error:
            raise self._passing(error) from None
        self._compile, self._name, self._compared = compiled, name, False

    def graph_traced(self, code: types.CodeType, graph: GraphText, backwards: Optional[List[Any]]) -> None:
        if self._compile is None or self._compared or self._compile.code is not code:
            return
        self._compared = True
        try:
            self._compare(graph, backwards)
        except Error as error:
            raise self._passing(error) from None

    def compile_ended(self, error: Optional[BaseException], goes_on: bool) -> None:
        compiled = self._compile
        if compiled is None or threading.get_ident() != self._watch.thread:
            return
        try:
            interrupted = error is not None and not isinstance(error, Exception)  # such an error ends this rank
            if not self._compared and not interrupted and not isinstance(error, Error):
                failed = isinstance(error, Exception) and not goes_on
                self._compare(UNTRACED, [], said(error) if failed and error is not None else None)
        except Error as joint:
            if error is None or goes_on:  # the frame runs now, and nothing can be raised here
                self._pends(_Pending(joint, compiled.code))
        finally:
            self._compile = None

    def unraised(self, error: BaseException, code: types.CodeType) -> None:
        if isinstance(error, Error):  # the frame runs now, although the other ranks have raised this error
            self._pends(_Pending(error, code))

    def asked(self, what: str, _: str) -> None:
        """Called before a collective of the watched thread on the watched group; votes on it if necessary."""
        self._raise_pending()
        if self._alone == 0 and (self._raises or self._strict > 0) and self._watch.votes_stand():
            self._vote(what, False)

    def _asks(self) -> None:
        """Sets the mark that makes the kernels call asked(): true if asked() has a vote to make, or an error to
        raise."""
        votes = self._alone == 0 and (self._raises or self._strict > 0)
        self._watch.marks.asks = votes or self._pending is not None

    def _pends(self, pending: Optional[_Pending]) -> None:
        self._pending = pending
        self._asks()

    # What the ranks compare.

    def _vote(self, name: str, new: bool) -> Optional[bool]:
        """Votes on the frame `name`; `new`: this rank needs a new version of it. Returns True if all ranks need one,
        False if no rank does, None if only some do."""
        self._raise_pending()
        issued = self._watch.notes.notes()
        self._watch.notes.clear()
        self.votes += 1
        with self.waiting(name), _own_words():
            times = self._ballot.enter(name, new, issued)
        if times > 0 and self._raises:  # under other policies, all ranks then compile the frame
            self._differs(times)
        return None if times > 0 else new

    def _raise_pending(self) -> None:
        """Raises the pending error if its frame is still running. Otherwise reports the error, so that all ranks raise
        it in the next vote (the other ranks once more) and stay in step."""
        pending = self._pending
        if pending is None:
            return
        self._pends(None)
        frame: Optional[types.FrameType] = sys._getframe(1)
        while frame is not None:
            if frame.f_code is pending.code:
                raise pending.error
            frame = frame.f_back
        self._ballot.trouble(pending.error.message, "COMPILE_ERROR")

    def _compare(self, graph: GraphText, backwards: Optional[List[Any]], trouble: Optional[str] = None) -> None:
        with self.waiting(f"the graph of {self._name}"):
            if self._ballot.all(backwards is not None):  # all ranks know their backward graphs
                graph = self._watch.training(graph, backwards)
        compile_ = self._compile
        assert compile_ is not None
        with self.waiting(f"the graph of {self._name}"):
            times = self._ballot.compare(f"the graph of {self._name}", _observation(compile_.variables), graph, trouble)
        if times > 0:
            self._differs(times)

    def _differs(self, times: int) -> None:
        """Raises or reports the finding of the last vote, which is the same on all ranks. `times`: how often this
        finding has been made so far."""
        finding = self._ballot.finding()
        if self._raises:
            raise ERRORS[finding.code](finding)
        if times == 1 and self.group.rank == 0:
            self._watch.told(finding)


@contextlib.contextmanager
def _own_words() -> Iterator[None]:
    """Inside this context, the advice in a FrameMismatch is replaced by advice in the terms of this package."""
    try:
        yield
    except FrameMismatch as error:
        before, advice, _ = error.message.partition("; ")
        message = before + advice + ("all ranks enter the same frames in the same order under this vote; what a rank does by "
                                     "itself goes into `with watch.alone():`")
        raise FrameMismatch(error.finding._replace(
            message=message, text=error.finding.text.replace(error.message, message))) from None


def _observation(variables: Dict[str, Any]) -> Optional[Observation]:
    """Returns an observation of the variables that may explain why graphs differ; None: there are no such variables, or
    they cannot be observed."""
    seen: Dict[str, Any] = {}
    for name, value in variables.items():
        if not name.startswith("_"):
            seen.update(readable(name, value))
    try:
        return Observation(None, **seen) if seen else None
    except (TypeError, ValueError, Error):
        return None  # the report of a difference then names no input as its cause


def _raising(error: BaseException) -> type:
    """Returns a class whose call, with or without an argument, returns `error` itself."""
    return type(type(error).__name__, (type(error),), {"__new__": lambda kind, *_: error})
