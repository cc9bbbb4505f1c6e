"""watch(): keeps the ranks of an unchanged program with torch.compile and torch.distributed in step."""

from __future__ import annotations

import atexit
import contextlib
import io
import itertools
import logging
import os
import sys
import threading
import types
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Tuple, Type

import torch.distributed as dist

from .._library import lib, native
from ..errors import Error, Finding, GraphDivergence, said
from ..group import Group
from ..lines import pass_on
from ..observation import walked
from ..reports import ranks_named
from ._hooks import BackwardGraphs, FrameEvents, passing, see_sizes, sizes_seen
from .ballot import Ballot
from .collectives import tensor_text
from .frame_tales import BACKWARD, FrameTales, Tale
from .frames import Compile, GraphText
from .graph_text import backward_text, collective_places, graph_text
from .lines import TorchLines, title_of
from .nested import readable
from .picks import Picks
from .progress import Progress
from .rendezvous import exchange, group_of_mesh, needs_start
from .rendezvous import group as open_group
from .site import FrameNames, closure_text, frame_name
from .votes import FrameVotes

_log = logging.getLogger("lockstep.torch")
POLICIES = ("recompile", "audit", "error")
_MOST_INPUTS, _DEEPEST = 256, 8  # most inputs of a frame, and deepest nesting, that are reported
_watch: Optional["Watch"] = None


def watch(policy: Any = "recompile", process_group: Any = None, *, deadline: float = 60.0,
          compile_deadline: float = 1800.0, report: Optional[Callable[[Finding], None]] = None,
          autotune: bool = False) -> "Watch":
    """From now on compares each collective of this process with those of its peers before it is issued, and reports to
    the peers what this process compiles. Collective over `process_group`, the ranks that compare what they compile
    (default: all ranks). A DeviceMesh, or a dim of a mesh, can stand for a process group, also as the first argument:
    watch(mesh). Call it after torch.distributed.init_process_group(). The program needs no other change.

    No rank waits for the comparison. Collectives of any process group, on any thread, and calls that make a group are
    compared with those that peers have issued (peers on other hosts some milliseconds late). If ranks differ, at least
    one of them raises GraphDivergence. If this package has a native part for this version of torch, ranks that wait for
    that rank on gloo raise, too: the same error, or Stuck, or Gone if that rank has ended. If compiled graphs differ,
    the error says how. Ranks may run different frames, and in any order. When a rank compiles a frame again, sizes that
    are different on its peers become symbols.

    `policy`:
      "recompile": as above;
      "audit":     nothing is raised, no process is ended: differences are logged;
      "error":     versions, graphs and calls of frames must be the same on all ranks of `process_group`, on the thread
                   that calls watch(). The ranks vote before each frame and each collective. Any difference is
                   FrameMismatch or GraphDivergence on all ranks; a program that catches the error can go on.
                   Watch.alone() is for work that one rank does by itself.
    `autotune`: where inductor measures kernels for an operation (max_autotune), all ranks take the measurements of the
    rank that finished first, and so its pick; else picks that differ are reported. (A graph from a cache has its pick.)

    `report` receives differences that are not raised, on the rank that sees them, once for a frame; default: logging,
    "lockstep.torch", at INFO (under "audit", differences that would be errors at WARNING).

    A rank that others wait for in a collective is named if it makes no progress for `deadline` seconds, or compiles for
    longer than `compile_deadline`. The job then ends with exit code 4, or 5 if the rank's process has been killed.
    `Watch.close()` ends the watch; a program that ends normally closes it automatically."""
    if not isinstance(policy, str):  # watch(mesh)
        policy, process_group = "recompile", policy
    if policy not in POLICIES:
        raise ValueError(f"policy is {policy!r}; use one of " + ", ".join(map(repr, POLICIES)))
    if not deadline > 0 or not compile_deadline > 0:
        raise ValueError("deadline and compile_deadline are seconds, more than 0")
    if _watch is not None and _watch.is_for_script:
        _watch.close()
    if _watch is not None:
        raise RuntimeError("lockstep.torch.watch() has been called; close() what it returned first")
    kind = _watching()
    if kind is Watch:
        needs_start("watch")
    return kind(policy, process_group, deadline, compile_deadline, report, autotune)


def alone() -> ContextManager[None]:
    """Returns Watch.alone() of the current watch; without a watch, a context that does nothing."""
    return contextlib.nullcontext() if _watch is None else _watch.alone()


def watch_where_none_is(policy: Any, process_group: Any, options: Mapping[str, Any]) -> Optional["Watch"]:
    """Calls watch() for a trainer's callback, unless the program has called it or torch.distributed is not initialised
    (returns None)."""
    if not dist.is_available() or not dist.is_initialized() or (_watch is not None and not _watch.is_for_script):
        return None
    return watch(policy, process_group, **options)


def begin_for_script(policy: str, deadline: float) -> None:
    """Begins the watch of an unchanged script, which may call watch() itself. Collective over all ranks."""
    if _watch is None:
        watch(policy, deadline=deadline).is_for_script = True


class Watch:
    """The watch of torch.compile and torch.distributed. `compiles`: how many versions this rank has compiled."""

    is_for_script = False  # begun by python -m lockstep.torch

    def __init__(self, policy: str, process_group: Any, deadline: float, compile_deadline: float,
                 report: Optional[Callable[[Finding], None]], autotune: bool = False) -> None:
        process_group = group_of_mesh(process_group)
        self._watched: Any = process_group if process_group is not None else dist.group.WORLD
        self._policy, self._report, self._deadline = policy, report, deadline
        self._same_policy(process_group)
        self.compiles = 0
        self.thread = threading.get_ident()             # the watched thread; 0 in a copy of the process after a fork
        self._counts: Dict[str, int] = {}
        self._traced: Optional[List[GraphText]] = None  # the graphs that tracing() collects, while it is active
        self._told: List[str] = []                      # texts of the reported differences
        self._compiling = threading.local()             # .compile: this thread's compile; .traced: it has been traced
        self._frames: Dict[types.CodeType, Tale] = {}   # by the code that runs instead of a frame's own
        self._telling = threading.Lock()                # guards _tales
        #: By code: frames whose first version, too, has symbols for sizes that differ on peers. Their tales have the
        #: text in place of closure_text().
        self.decided_from_tales: Dict[types.CodeType, str] = {}
        self._group: Optional[Group] = None
        self._voting: List[FrameVotes] = []             # a stack: the last one votes on frames now
        self._votes_of: Dict[Any, FrameVotes] = {}      # by process group
        if policy != "audit":
            self._open_group()
        self._members: List[int] = dist.get_process_group_ranks(self._watched)
        self._world: Any = dist.group.WORLD
        self._job_size: int = dist.get_world_size()   # 0: torch.distributed was started again with another size
        self._tales = FrameTales(dist.get_rank(), self._members, lambda told: self.lines.tell_tale(told),
                                 lambda rank: self.lines.tales_told(rank), lambda rank, number: self.lines.tale(rank, number))
        self.lines = TorchLines(lambda word: exchange(process_group, word, 5 * deadline), self._watched,
                           None if self._group is None else self._group._handle, self._asked, self._counts_collective,
                           self._notes_collective, 5 * deadline, policy == "audit", self._explained, self._tell, self._peer_compiles)
        self.notes = self.lines.kernels
        if self._group is not None and policy != "error" and self.lines.sees_waits:
            self._group._ends_apart = True
            lib.ends_at_loss(self._group._handle, 0)
        self.marks = self.notes.marks
        self.marks.within = self.marks.asks = self.marks.votes = 0
        self.marks.patience = 0 if policy == "audit" else int(min(compile_deadline, 1e6))
        self.lines.deadline(deadline)
        self.progress = Progress(deadline, compile_deadline, lambda: self.within > 0, lambda: self.marks.waits > 0,
                                 self.lines.alive)
        self._events = FrameEvents(native.answering(self._guards_tested), self._compile_starts,
                                   self._graph_traced, self._compile_ended, self._backward_build, self._unraised)
        self._backwards = BackwardGraphs()
        self._picks = Picks(dist.get_rank(), autotune, self._tell)
        if self._group is not None:
            self._use(self._group)
        if policy == "error":
            self.votes_begin(self.votes_of(self._watched))
        self._hook = sys.excepthook
        sys.excepthook = self._uncaught
        self._comes_first_at_exit()
        _set(self)

    @property
    def process_group(self) -> Any:
        """The process group of the watched ranks."""
        return self._watched

    def _same_policy(self, process_group: Any) -> None:
        words = exchange(process_group, self._policy, 5 * self._deadline)
        apart = sorted({word for word in words if word})
        if len(apart) > 1:
            raise ValueError("ranks call lockstep.torch.watch() with different policies: " + "; ".join(
                f"{policy!r} on rank {words.index(policy)}" for policy in apart))

    def _open_group(self) -> Group:
        self._group = open_group(self._watched, self._deadline)
        return self._group

    def _use(self, group: Group) -> None:
        group._told_busy = self.lines.alive
        self.progress.groups.append(group)
        self._comes_first_at_exit()
        self.progress.tells_stalls = not self.lines.sees_waits

    def _comes_first_at_exit(self) -> None:
        """Makes _at_exit() run before the exit handlers of groups, which close the groups."""
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)

    @property
    def group(self) -> Group:
        """The watched ranks. Collective at its first use under "audit"."""
        if self._group is None:
            self._use(self._open_group())
        assert self._group is not None
        return self._group

    def votes_of(self, process_group: Any) -> FrameVotes:
        """Returns the votes of the ranks of a process group before frames. The first call for a process group is
        collective over it."""
        found = self._votes_of.get(process_group)
        if found is not None:
            return found
        members, watched = dist.get_process_group_ranks(process_group), process_group is self._watched
        with self.waiting(members, "the first call together"):
            group = self.group if watched else open_group(process_group, self._deadline)
            if not watched:
                self._use(group)
            ballot = Ballot(group, title_of(process_group))
            found = self._votes_of[process_group] = FrameVotes(
                self, ballot, members, watched and self._policy == "error", FrameNames().of, passing)
        group._ends_apart = False
        lib.ends_at_loss(group._handle, 1)
        return found

    def votes_begin(self, votes: FrameVotes) -> None:
        """Makes `votes` vote on frames until votes_end()."""
        self._voting.append(votes)
        self._events.look_up(True)

    def votes_end(self) -> None:
        self._voting.pop()
        self._events.look_up(bool(self._voting))

    @property
    def _votes(self) -> Optional[FrameVotes]:
        return self._voting[-1] if self._voting else None

    @contextlib.contextmanager
    def waiting(self, members: List[int], name: str) -> Iterator[None]:
        """Inside this context, peers see that this rank waits for `members` in a vote on `name`."""
        with self.inside(), self.lines.voting(members, name):
            yield

    @property
    def votes(self) -> int:
        """Number of votes before frames and collectives so far: under "error", and for compile()."""
        return sum(votes.votes for votes in self._votes_of.values())

    @property
    def elsewhere(self) -> int:
        """Number of frames that ran without a vote on other threads; on the thread that called watch() they would have
        been voted on."""
        return sum(votes.elsewhere for votes in self._votes_of.values())

    def alone(self) -> ContextManager[None]:
        """Returns a context for an evaluation on one rank, or for batches whose number differs between ranks. Inside
        it, nothing that this thread does is voted on under "error". Collectives are still compared."""
        standing = self._votes_of.get(self._watched)
        return contextlib.nullcontext() if standing is None else standing.alone()

    @property
    def within(self) -> int:
        """Number of running calls of this package. While it is not 0, frames are not voted on and operations are not
        noted."""
        within: int = self.marks.within
        return within

    @within.setter
    def within(self, calls: int) -> None:
        self.marks.within = calls

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Marks a call of this package as running."""
        self.within += 1
        try:
            yield
        finally:
            self.within -= 1

    def close(self) -> None:
        """Ends the watch. Collective under "error", and if calls of compile() were made together. Raises
        GraphDivergence if an operation of this rank was refused by other ranks after this rank had issued it."""
        if _watch is not self:
            return
        refused = self._remove()
        for group in self._groups():
            if refused is not None and not group._ends_apart:
                group.leave(said(refused))
            elif not group._ends_apart:
                group.finish()
            group.close()
        if refused is not None:
            raise refused
        self.lines.leave()

    def summary(self) -> str:
        """Returns the reported differences and a summary of the votes."""
        return "\n".join(self._told + [votes.summary() for votes in self._votes_of.values()])

    def _groups(self) -> List[Group]:
        watched = [] if self._group is None else [self._group]
        return watched + [votes.group for votes in self._votes_of.values() if votes.group is not self._group]

    def count(self, name: str) -> int:
        """Returns how often count() has been called with this name."""
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._counts[name]

    @property
    def issued(self) -> List[str]:
        """The collectives that this rank has issued since the last vote, one per line, if ranks vote on them."""
        return self.notes.notes()

    @property
    def is_over(self) -> bool:
        """True if the watch has been closed."""
        return _watch is not self

    @contextlib.contextmanager
    def tracing(self) -> Iterator[List[GraphText]]:
        """Yields a list that receives the graphs compiled inside this context. The caller compares them; the ranks do
        not vote on these frames."""
        graphs: List[GraphText] = []
        self._backwards.take()
        self._traced = graphs
        try:
            with self.inside():
                yield graphs
        finally:
            self._traced = None

    def training(self, graph: GraphText, backwards: Optional[List[Any]]) -> GraphText:
        """Returns `graph` with the text of its backward graphs added."""
        backward = backward_text(backwards or [], self._watched.group_name)
        return GraphText(graph.nodes + backward.nodes, graph.collectives + backward.collectives)

    def told(self, finding: Finding) -> None:
        """Reports a difference that makes no rank wait."""
        self._told.append(finding.text)
        pass_on(finding, self._report, _log)

    def votes_stand(self) -> bool:
        """Returns whether the ranks can still vote. They cannot once torch.distributed was restarted with another
        size."""
        if dist.group.WORLD is not self._world and dist.group.WORLD is not None:
            self._world = dist.group.WORLD
            size = dist.get_world_size()
            if self._job_size not in (0, size):
                _log.warning("torch.distributed has begun again with %d ranks in place of %d: frames are not voted any more; "
                             "close() the watch before that, and call watch() after it", size, self._job_size)
                self._job_size = 0
        return self._job_size > 0

    def _tell(self, text: str) -> None:
        self.told(Finding("GRAPH_DIVERGENCE", text, "", (), text))

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            return self.close()
        self.lines.gone(said(error))
        self._remove()
        if self._of(error) is not None:
            sys.excepthook = self._uncaught
        for group in self._groups():
            group.__exit__(kind, error, trace)

    def forget(self) -> None:
        """Called in a copy of the process after a fork, such as a worker of a data loader: the copy takes no part."""
        self.thread = 0
        self._events.remove()
        self._backwards.remove()
        self.lines.forget()
        if sys.excepthook == self._uncaught:
            sys.excepthook = self._hook

    def _remove(self) -> Optional[Error]:
        _set(None)
        self._events.remove()
        self._backwards.remove()
        self._picks.end()
        refused = self.lines.remove()
        self.progress.stop()
        atexit.unregister(self._at_exit)
        if sys.excepthook == self._uncaught:
            sys.excepthook = self._hook
        return refused

    def _of(self, error: BaseException) -> Optional[Error]:
        """Returns `error` if lockstep raised it, or the lockstep error that torch has put into an exception of its
        own."""
        return error if isinstance(error, Error) else self.lines.within(error)

    def _uncaught(self, kind: Type[BaseException], error: BaseException, trace: Optional[types.TracebackType]) -> None:
        """Shows an uncaught error, and ends the process with its exit code."""
        self._hook(kind, error, trace)
        own = self._of(error)
        if own is not None:
            if isinstance(sys.stderr, io.StringIO) and sys.__stderr__ is not None:  # torch's hook has captured stderr
                sys.__stderr__.write(sys.stderr.getvalue())
            raise SystemExit(own.exit_code)

    def _at_exit(self) -> None:
        failure = getattr(sys, "last_value", None)
        if failure is not None and self.thread != 0:
            self.lines.gone(said(failure))
            self.notes.end()
        if failure is not None or self.thread == 0:
            return  # after a failure the group leaves with its text; a copy after a fork does nothing
        try:
            self.close()
        except GraphDivergence as error:
            self.lines.end(error)
        except Error as error:
            print(f"lockstep: {error}", file=sys.stderr)

    # Events of torch.compile.

    def _votes_here(self) -> bool:
        return self._votes is not None and self._votes.votes_here()

    def _guards_tested(self, found: bool) -> Any:
        return True if self._votes is None else self._votes.guards_tested(found, sys._getframe(1))

    def _compile_starts(self, compiled: Compile) -> None:
        self._picks.begin()
        if self._votes_here():
            assert self._votes is not None
            self._votes.compile_starts(compiled)
        if threading.get_ident() == self.thread:
            self._backwards.take()
            if self.within > 0:  # a trace of compile(), which compares the graph and reports progress itself
                return
        self.progress.compile_starts()
        self.compiles += 1
        self._compiling.compile, self._compiling.traced = compiled, False
        with self._tells():
            seen = self._tales.begins(frame_name(compiled.code), self._closure_of(compiled),
                                      compiled.code in self.decided_from_tales)
            for sizes in seen if self._policy != "audit" else []:
                see_sizes(compiled.code, compiled.closure, sizes)

    def _graph_traced(self, code: types.CodeType, made: types.CodeType, output: Any) -> None:
        self.notes.runs_graph(made, collective_places(output))
        graph = graph_text(output, self._watched.group_name)
        mine = threading.get_ident() == self.thread
        backwards = self._backwards.take() if mine else None
        if mine and self._traced is not None:
            self._traced.append(self.training(graph, backwards))
        if mine and self._votes is not None:
            self._votes.graph_traced(code, graph, backwards)
        compiled = getattr(self._compiling, "compile", None)
        if compiled is None or compiled.code is not code:
            return  # a compile within another
        self._compiling.traced = True
        differs = ""
        with self._tells():
            backward = None if backwards is None else backward_text(backwards, self._watched.group_name)
            self._frames[made], differs = self._tales.has_traced(
                frame_name(code), graph, backward, _inputs(compiled.variables), sizes_seen(code, compiled.closure),
                self._closure_of(compiled))
        if differs:
            self._tell(differs)

    def _closure_of(self, compiled: Compile) -> str:
        own = self.decided_from_tales.get(compiled.code)
        return closure_text(compiled.closure) if own is None else own

    def _compile_ended(self, error: Optional[BaseException], goes_on: bool) -> None:
        if self._votes is not None:
            self._votes.compile_ended(error, goes_on)
        compiled = getattr(self._compiling, "compile", None)
        if compiled is None:
            return
        self._compiling.compile = None
        self.progress.compile_ends()
        if error is not None or not self._compiling.traced:
            with self._tells():
                self._tales.has_ended(frame_name(compiled.code))

    @contextlib.contextmanager
    def _tells(self) -> Iterator[None]:
        """For code that reports to peers. Inside this context, an exception is only logged: peers then know less."""
        try:
            with self._telling:
                yield
        except Exception as error:
            _log.info("what torch compiles cannot be told to the other ranks: %s", said(error))

    def _unraised(self, error: BaseException, code: types.CodeType) -> None:
        if self._votes is not None:
            self._votes.unraised(error, code)

    def _backward_build(self, starts: bool) -> None:
        with self._tells():
            if starts:
                self._tales.begins(BACKWARD)
            else:
                self._tales.has_ended(BACKWARD)
        if starts:
            self.progress.compile_starts()
        else:
            self.progress.compile_ends()

    def _counts_collective(self, what: str, place: str) -> bool:
        if threading.get_ident() != self.thread or self.within > 0:
            return False
        self._asked(what, place)
        return True

    def _notes_collective(self, what: str, place: str) -> bool:
        if self._group is not None and not self.lines.sees_waits:
            self._group.issues(f"{what} at {place}")
        return bool(self.marks.votes)

    def _asked(self, what: str, place: str) -> None:
        for votes in self._votes_of.values():
            votes.asked(what, place)

    def _peer_compiles(self) -> bool:
        with self._telling:
            return self._tales.is_compiled_elsewhere()

    def _explained(self, finding: Finding) -> str:
        """Returns what is known of why operations of ranks differ, or why a rank does not issue its operation."""
        named, why = ranks_named(finding.text), ""
        frame: Optional[types.FrameType] = sys._getframe(1)
        while frame is not None and frame.f_code not in self._frames:
            frame = frame.f_back
        with self._tells():
            if finding.code != "GRAPH_DIVERGENCE":
                doing = [(rank, self._tales.doing(rank)) for rank in named]
                why = "; ".join(f"rank {rank} compiles {what}" for rank, what in doing if what)
            elif frame is not None:
                why = self._tales.explained(self._frames[frame.f_code], named)
        return why


def _inputs(variables: Dict[str, Any]) -> Dict[str, str]:
    """Returns the texts of tensors ("f32[3, 4]") and scalars in a frame's variables and their parts, by name."""
    def leaves() -> Iterator[Tuple[str, Any]]:
        for name, value in variables.items():
            with contextlib.suppress(Exception):  # an object that cannot be read now
                yield from walked(name, value, _DEEPEST)
    found: Dict[str, str] = {}
    for name, leaf in itertools.islice(leaves(), _MOST_INPUTS):
        for read, seen in readable(name, leaf).items():
            found[read] = tensor_text(seen.dtype, list(seen.shape)) if hasattr(seen, "dtype") else str(seen)
    return found


def the_watch(process_group: Any) -> Optional[Watch]:
    """Returns the current watch, or starts one; None: nothing is watched (LOCKSTEP_COORDINATION=off)."""
    watched = _watch if _watch is not None else watch(process_group=process_group)
    if isinstance(watched, _Off):
        return None
    process_group = group_of_mesh(process_group)
    if process_group is not None and process_group is not watched._watched:
        raise ValueError("the watch that is on is over another process group; close() it first")
    return watched


class _Off(Watch):
    """The watch under LOCKSTEP_COORDINATION=off. It watches nothing, to show what goes wrong without a watch."""

    def __init__(self, *_: Any) -> None:
        self.compiles = 0
        self._votes_of, self._watched = {}, None
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


def _set(current: Optional[Watch]) -> None:
    global _watch
    _watch = current


def _in_child() -> None:
    """Called in a copy of the process after a fork, such as a worker of a data loader."""
    if _watch is not None:
        _watch.forget()


os.register_at_fork(after_in_child=_in_child)
