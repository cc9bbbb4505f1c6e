"""watch(): torch.compile, as it is, with its ranks in step."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import traceback
import types
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Type

from .._library import Run, lib, native
from ..agreement import Agreement
from ..errors import ERRORS, Error, Finding, GraphDivergence, check, finding_of, said
from ..group import Group
from ..observation import Observation
from ._hooks import BackwardGraphs, Compile, FrameEvents, passing
from .graph_text import GraphText, backward_text, collective_places, graph_text
from .lines import Lines
from .nested import readable
from .part import Marks
from .progress import Progress
from .rendezvous import exchange
from .rendezvous import group as open_group
from .rendezvous import group_of_mesh
from .site import FrameNames

_POLICIES = ("recompile", "audit", "error")
_watch: Optional["Watch"] = None


def watch(policy: str = "recompile", process_group: Any = None, *, deadline: float = 60.0,
          compile_deadline: float = 1800.0, report: Optional[Callable[[Finding], None]] = None) -> "Watch":
    """From now on the ranks of `process_group` (default: all; or a dim of a DeviceMesh) agree before each frame
    that torch.compile has compiled or is about to compile, on the thread that calls this. Collective over that
    group; after torch.distributed.init_process_group(). Nothing of the program has to change, and graph breaks
    may be.

    Before each frame: that all are in the same one (else FrameMismatch), that all have a version of it or
    all compile one, and that they have issued the same collectives since the frame before (else
    GraphDivergence). Before the first run of a version: that all have traced the same graph, with the same
    collectives (else GraphDivergence, which names the first that differs with the line of each rank).

    Collectives of every process group, on every thread, and the making of groups are also compared with what the other
    ranks have issued before they are issued (those of other hosts some milliseconds late), and nobody waits for that; of ranks that differ at least one
    raises GraphDivergence, and so do those that wait for it on gloo (Stuck, or Gone where it has ended), where this package
    has its part for this torch.

    `policy` says what comes of differences that let no rank wait for another or join the wrong collective:
    where only some ranks need a new version,
      "recompile": the others compile one too;
      "audit":     nothing is changed; it is reported;
      "error":     GraphDivergence on all ranks; so it is for graphs that differ and have the same
                   collectives, which are reported otherwise; and each collective is voted before it is issued.
    Errors come out of the call of the compiled function, alike on all ranks; a program that catches them can
    go on. `report` receives what is reported, once per kind (default: a line on stderr, from rank 0).

    A rank that makes no progress for `deadline` seconds while others wait for it, and one whose compile
    takes longer than `compile_deadline`, is named, and ends the job with exit code 4; one whose process has
    ended with 5. `Watch.close()`, collective, ends the watch; a program that ends normally does so by itself."""
    if policy not in _POLICIES:
        raise ValueError(f"policy is {policy!r}; use one of " + ", ".join(map(repr, _POLICIES)))
    if not deadline > 0 or not compile_deadline > 0:
        raise ValueError("deadline and compile_deadline are seconds, more than 0")
    if native is None:
        raise RuntimeError("lockstep.torch.watch() needs the extension lockstep._native; install the package "
                           "with pip, or build the target lockstep_native")
    if _watch is not None:
        raise RuntimeError("lockstep.torch.watch() has been called; close() what it returned first")
    return _watching()(policy, process_group, deadline, compile_deadline, report)


class _Pending(NamedTuple):
    error: Error
    code: types.CodeType  # of the frame that runs without a graph here, and not on all ranks


#: Of a frame that runs without a graph: its collectives are as little known as its work.
_UNTRACED = GraphText(["runs without a graph"], ["those of code without a graph"])


class Watch:
    """torch.compile under watch. `group`: the ranks; `votes`, `compiles`: how many frames, and new
    versions of frames, the ranks have agreed on; `elsewhere`: how many frames ran on other threads, unwatched."""

    def __init__(self, policy: str, process_group: Any, deadline: float, compile_deadline: float,
                 report: Optional[Callable[[Finding], None]]) -> None:
        import torch.distributed as dist
        process_group = group_of_mesh(process_group)
        self.group: Group = open_group(process_group, deadline)
        self.votes = self.compiles = self.elsewhere = 0
        self._policy, self._report = policy, report
        self._thread = threading.get_ident()
        Agreement(self.group, f"watch(policy={policy!r})")  # its name is compared
        self._agreement = Agreement(self.group, "torch.compile")
        self._handle = self._agreement._handle.value
        self._marks = Marks()                   # later those of the lines
        self._strict = 0                        # voting() under way
        self._looked_up: Optional[str] = None   # the frame that was voted on, until its compile starts
        self._compile: Optional[Compile] = None # under way and voted on
        self._compared = False                  # its graph
        self._pending: Optional[_Pending] = None  # of the compile that has ended, for the next event; see _asks()
        self._names = FrameNames()
        self._counts: Dict[str, int] = {}
        #: Takes the place of the next frame's vote, and says what it has come to as _guards_tested() does.
        self.instead: Optional[Callable[[bool], Any]] = None
        #: Called before a frame that has versions compiles another one; None: nobody is.
        self.on_recompile: Optional[Callable[[], None]] = None
        self._traced: Optional[List[GraphText]] = None  # graphs, where tracing() takes them
        self._fresh: Optional[bool] = None      # of the last vote
        self._times = ctypes.c_uint64()
        self._to_times = ctypes.byref(self._times)
        self._runs = {new: self._run_of(new) for new in (False, True)}
        self._watched: Any = process_group if process_group is not None else dist.group.WORLD
        self.lines = Lines(lambda word: exchange(process_group, word, 5 * deadline), self._watched, self.group._handle,
                           self._asked, self._before_collective, 5 * deadline)
        self._notes = self.lines.kernels
        self._marks = self._notes.marks
        self._marks.within = 0
        self.lines.deadline(deadline)
        self.group._told_busy = self.lines.alive
        self.progress = Progress(self.group, deadline, compile_deadline, lambda: self.within > 0,
                                 lambda: self._marks.waits > 0, self.lines.alive)
        self._asks()
        self._events = FrameEvents(native.answering(self._guards_tested), self._compile_starts,
                                   self._graph_traced, self._compile_ended, self._backward_build, self._unraised)
        self._backwards = BackwardGraphs()
        atexit.register(self._at_exit)
        _set(self)

    @property
    def within(self) -> int:
        """Calls of this package under way, in which no frame is voted and nothing that is issued counts."""
        within: int = self._marks.within
        return within

    @within.setter
    def within(self, calls: int) -> None:
        self._marks.within = calls

    def close(self) -> None:
        """Ends the watch. Collective. Raises GraphDivergence where an operation of this rank was refused by others
        after it had been issued."""
        if _watch is not self:
            return
        refused = self._remove()
        if refused is not None:
            self.group.leave(said(refused))
            self.group.close()
            raise refused
        self.group.finish()
        self.group.close()
        self.lines.leave()

    def summary(self) -> str:
        """What was found, in a few lines."""
        return self._agreement.summary()

    @contextlib.contextmanager
    def voting(self, name: str) -> Iterator[None]:
        """Each collective within is voted before it is issued, and the end after the last; an exception is
        the error of all ranks there. Collective."""
        self._strict += 1
        self._asks()
        try:
            yield
        except Exception as error:
            if not isinstance(error, Error):  # which all ranks have
                self.group.trouble(said(error))
                with contextlib.suppress(Error):
                    self._vote(f"the end of {name}", False)
            raise
        finally:
            self._strict -= 1
            self._asks()
        self._vote(f"the end of {name}", False)

    def fails(self, name: str, error: Exception) -> None:
        """This rank cannot take part in the frame of which the others are on their way into the vote."""
        self.group.trouble(said(error))
        with contextlib.suppress(Error):
            self._vote(name, False)

    def count(self, name: str) -> int:
        """How often it was called with this name."""
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._counts[name]

    def votes_next(self) -> bool:
        """The next frame of this thread that has versions is voted, and its vote has nothing else to tell."""
        return (threading.get_ident() == self._thread and self.within == 0 and self._compile is None
                and self._pending is None and not self._notes.notes())

    @property
    def issued(self) -> List[str]:
        """Collectives since the last vote, a line each."""
        return self._notes.notes()

    def issued_as_agreed(self) -> None:
        """They are those of a graph that the ranks have compared, and need no vote."""
        self._notes.clear()

    @property
    def is_over(self) -> bool:
        """It has been closed."""
        return _watch is not self

    @contextlib.contextmanager
    def tracing(self) -> Iterator[List[GraphText]]:
        """What is compiled within is compared by the caller, which gets it here; no rank votes."""
        graphs: List[GraphText] = []
        self._backwards.take()
        self._traced = graphs
        try:
            with self._inside():
                yield graphs
        finally:
            self._traced = None

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            return self.close()
        self.lines.gone(said(error))
        self._remove()
        self.group.__exit__(kind, error, trace)

    def _remove(self) -> Optional[Error]:
        _set(None)
        self._events.remove()
        self._backwards.remove()
        refused = self.lines.remove()
        self.progress.stop()
        atexit.unregister(self._at_exit)
        return refused

    def _at_exit(self) -> None:
        failure = getattr(sys, "last_value", None)
        if failure is not None and self._thread != 0:
            self.lines.gone(said(failure))
        if failure is not None or self._thread == 0:
            return  # the group leaves, with what this process ends by; or this is a copy after a fork
        try:
            self.close()
        except GraphDivergence as error:
            self.lines.end(error)
        except Error as error:
            print(f"lockstep: {error}", file=sys.stderr)

    # What torch.compile does, as it comes.

    def _guards_tested(self, found: bool) -> Any:
        """A bool, or the class of an exception."""
        if not self._mine() or self._compile is not None:
            return True
        instead, self.instead = self.instead, None
        if instead is not None:
            return instead(found)
        try:
            name = self._names.of(sys._getframe(1))
            fresh = self._vote(name, not found)
        except BaseException as error:  # what a signal's handler raises as well
            return _raising(error)
        compiles = not found or (fresh is not False and self._policy == "recompile")
        self._looked_up = name if compiles else None
        if compiles and self.on_recompile is not None:
            self.on_recompile()
        return not compiles

    def _compile_starts(self, compiled: Compile) -> None:
        if not self._mine():
            return
        instead, self.instead = self.instead, None
        if instead is not None:  # its versions are gone
            raise passing(instead(False)())
        name = "a frame" if compiled.caller is None else self._names.of(compiled.caller)
        looked_up, self._looked_up = self._looked_up, None
        try:
            if looked_up != name:  # the first time that this rank meets the frame
                self._vote(name, True)
        except Error as error:
            raise passing(error) from None
        self.compiles += 1
        self._backwards.take()
        self._compile, self._name = compiled, name
        self._compared = self._policy == "audit" and self._fresh is None  # others have nothing to compare
        self.group.note(f"compiling {name}")
        self.progress.compile_starts()

    def _graph_traced(self, code: types.CodeType, made: types.CodeType, output: Any) -> None:
        self._notes.runs_graph(made, collective_places(output))
        if threading.get_ident() != self._thread:
            return
        if self._traced is not None:
            self._traced.append(self._training(graph_text(output, self._watched.group_name), self._backwards.take()))
        if self._compile is None or self._compared or self._compile.code is not code:
            self._backwards.take()
            return
        self._compared = True
        try:
            self._compare(graph_text(output, self._watched.group_name), self._backwards.take())
        except Error as error:
            raise passing(error) from None

    def _compile_ended(self, error: Optional[BaseException], goes_on: bool) -> None:
        compiled = self._compile
        if compiled is None or threading.get_ident() != self._thread:
            return
        self.progress.compile_ends()
        try:
            interrupted = error is not None and not isinstance(error, Exception)  # it goes on to end this rank
            if not self._compared and not interrupted and not isinstance(error, Error):
                failed = isinstance(error, Exception) and not goes_on
                self._compare(_UNTRACED, [], said(error) if failed and error is not None else None)
        except Error as joint:
            if error is None or goes_on:  # the frame runs now, and nothing can be raised here
                self._pends(_Pending(joint, compiled.code))
        finally:
            self._compile = None

    def _unraised(self, error: BaseException, code: types.CodeType) -> None:
        if isinstance(error, Error):  # the frame runs now, and the others have raised it
            self._pends(_Pending(error, code))

    def _backward_build(self, starts: bool) -> None:
        if starts:
            self.progress.compile_starts()
        else:
            self.progress.compile_ends()

    def _before_collective(self, what: str, place: str) -> bool:
        if not self._mine(False):
            return False
        self._asked(what, place)
        self.group.issues(f"{what} at {place}")
        return True

    def _asked(self, what: str, _: str) -> None:
        self._raise_pending()
        if self._policy == "error" or self._strict > 0:
            self._vote(what, False)

    def _asks(self) -> None:
        """Whether _asked() has something to do."""
        self._marks.asks = self._policy == "error" or self._strict > 0 or self._pending is not None

    def _pends(self, pending: Optional[_Pending]) -> None:
        self._pending = pending
        self._asks()

    def _mine(self, counts: bool = True) -> bool:
        """This thread is watched, and not within this package."""
        if threading.get_ident() == self._thread:
            return self.within == 0
        self.elsewhere += counts
        return False

    # What the ranks compare.

    def _vote(self, name: str, new: bool) -> Optional[bool]:
        """Whether all (True), no (False) or some (None) ranks need a version of the frame."""
        self._raise_pending()
        run, lines = self._runs[new], self._notes.notes()
        self._notes.clear()
        if lines or run.collectives_text:
            compared = "\n".join(line.split("\t", 1)[0] for line in lines).encode()
            run.collectives = lib.fingerprint_of(compared, len(compared))
            run.collectives_text = "\n".join(lines).encode()
        self.votes += 1
        self.within += 1
        try:
            check(lib.audit(self._handle, name.encode(), None, ctypes.byref(run), self._to_times))
        finally:
            self.within -= 1
        differs = self._times.value > 0
        self._fresh = None if differs else new
        if differs and self._policy != "recompile":  # else nothing differs after it
            self._differs()
        return self._fresh

    def _raise_pending(self) -> None:
        """What the others have raised for a frame that runs here, while it does; else all ranks raise it
        once more, so that they stay in step."""
        pending = self._pending
        if pending is None:
            return
        self._pends(None)
        frame: Optional[types.FrameType] = sys._getframe(1)
        while frame is not None:
            if frame.f_code is pending.code:
                raise pending.error
            frame = frame.f_back
        self.group.trouble(pending.error.message, "COMPILE_ERROR")

    def _compare(self, graph: GraphText, backwards: Optional[List[Any]], trouble: Optional[str] = None) -> None:
        with self._inside():
            if self.group.all(backwards is not None):  # else some ranks know nothing of their backward pass
                graph = self._training(graph, backwards)
        nodes = "\n".join(line.split("\t", 1)[0] for line in graph.nodes)
        compile_ = self._compile
        assert compile_ is not None
        with self._inside():
            self._times.value, _ = self._agreement.audit(
                f"the graph of {self._name}", _observation(compile_.variables), nodes, graph.collectives,
                is_new=True, program_text="\n".join([f"{len(graph.nodes)} nodes", *graph.nodes]), trouble=trouble)
        if self._times.value > 0:
            self._differs()

    def _training(self, graph: GraphText, backwards: Optional[List[Any]]) -> GraphText:
        """The same with its backward pass."""
        backward = backward_text(backwards or [], self._watched.group_name)
        return GraphText(graph.nodes + backward.nodes, graph.collectives + backward.collectives)

    def _differs(self) -> None:
        """The last audited call has a finding, on all ranks."""
        finding = finding_of(lib.finding(self._handle))
        if self._policy == "error":
            raise ERRORS[finding.code](finding)
        if self._times.value == 1:
            if self._report is not None:
                try:
                    self._report(finding)
                except Exception:  # the others go on
                    traceback.print_exc()
            elif self.group.rank == 0:
                print("lockstep:", finding.text, file=sys.stderr)

    @contextlib.contextmanager
    def _inside(self) -> Any:
        self.within += 1
        try:
            yield
        finally:
            self.within -= 1

    def _run_of(self, new: bool) -> Run:
        words = b"needs a new version" if new else b"has a version"
        return Run(ctypes.sizeof(Run), new, lib.fingerprint_of(words, len(words)), _ISSUED,
                   lib.fingerprint_of(b"", 0), words)


def the_watch(process_group: Any) -> Optional[Watch]:
    """The one that is on, or a new one; None: nothing is watched."""
    watched = _watch if _watch is not None else watch(process_group=process_group)
    if isinstance(watched, _Off):
        return None
    process_group = group_of_mesh(process_group)
    if process_group is not None and process_group is not watched._watched:
        raise ValueError("the watch that is on is over another process group; close() it first")
    return watched


class _Off(Watch):
    """LOCKSTEP_COORDINATION=off: nothing is watched, to show what goes wrong."""

    def __init__(self, *_: Any) -> None:
        self.votes = self.compiles = self.elsewhere = 0
        print("lockstep: LOCKSTEP_COORDINATION=off: nothing is watched; expect hangs and wrong numbers",
              file=sys.stderr)

    def close(self) -> None:
        pass

    def summary(self) -> str:
        return ""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        pass


def _watching() -> Type[Watch]:
    setting = os.environ.get("LOCKSTEP_COORDINATION", "on")
    if setting not in ("on", "off"):
        raise ValueError(f"LOCKSTEP_COORDINATION is {setting!r}; use on or off")
    return Watch if setting == "on" else _Off


_ISSUED = 3  # LOCKSTEP_COLLECTIVES_ISSUED


def _set(current: Optional[Watch]) -> None:
    global _watch
    _watch = current


def _in_child() -> None:
    """After a fork, as for the workers of a data loader: they take no part."""
    if _watch is not None:
        _watch._thread = 0
        _watch.lines.forget()


os.register_at_fork(after_in_child=_in_child)


def _observation(variables: Dict[str, Any]) -> Optional[Observation]:
    """Of the variables that ranks may be told apart by; None: there are none."""
    seen: Dict[str, Any] = {}
    for name, value in variables.items():
        if not name.startswith("_"):
            seen.update(readable(name, value))
    try:
        return Observation(None, **seen) if seen else None
    except (TypeError, ValueError, Error):
        return None  # what differs is shown without a guess at its cause


def _raising(error: BaseException) -> type:
    """A class that gives this very exception when it is called, with the exception under way or without."""
    return type(type(error).__name__, (type(error),), {"__new__": lambda kind, *_: error})
