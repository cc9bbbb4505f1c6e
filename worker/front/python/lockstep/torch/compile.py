"""compile(): replaces torch.compile; compiles for sizes on which all ranks have agreed."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

import torch

from ..agreement import Agreed, Agreement, HitVote
from ..call_site import CallSite
from ..decision import Decision
from ..errors import CompileError, ConfigMismatch, FrameMismatch, GraphDivergence
from ..field import Value
from ..observation import Observation
from ..wrappers import _named, _told
from ._hooks import backend_named, compiles, looks_up, tracing_as_decided
from ._sizes import needs_a_value, shape_env_of
from .as_given import as_given, outside
from .collectives import is_user
from .example import Example, marks_of
from .frames import compared
from .graph_text import groups_of
from .guard_text import SizeGuard, UniformSize, size_guards, uniform_sizes
from .layout import Contiguous, is_layout, made_contiguous
from .lines import title_of
from .rendezvous import group_of_mesh
from .shared_build import SharedBuild
from .versions import NEEDS, Version, Versions
from .votes import FrameVotes
from .watch import Watch, the_watch

_log = logging.getLogger("lockstep.torch")
Marks = Mapping[str, Mapping[int, str]]
Fields = Callable[..., Mapping[str, Tuple[Value, str]]]


def compile(model: Any = None, *, fullgraph: bool = True, dynamic: Optional[bool] = None,
            backend: Any = "inductor", mode: Optional[str] = None, options: Optional[Mapping[str, Any]] = None,
            disable: bool = False, name: Optional[str] = None, consistency: str = "same_graph",
            marks: Optional[Marks] = None, fields: Optional[Fields] = None, recompile_limit: int = 8,
            process_group: Any = None, group: Any = None) -> Any:
    """Compiles a function or a module like torch.compile(model), for a job in which every rank compiles. Starts
    watch() over `process_group`, if watch() has not been called.

    As long as the graphs of `model` have no collectives, each rank compiles for itself, waits for no other rank, and
    may call the result alone, as under watch(). From the first graph with collectives on, the ranks of a process group
    make each call together; with `group`, `marks` or `fields` they do so from the first call on. The process group is
    `group`; by default it is the one that the first graph with collectives uses, or the watched ranks if that graph
    uses several groups, or if calls are made together because of `marks` or `fields`.

    Before each call that they make together, the ranks agree on the sizes, ints, bools, dtypes, layouts and
    requires_grad of the inputs, and on a version that fits them on all ranks. If no version fits, all ranks trace a new
    one at the same sizes: sizes that have been equal so far are numbers, others symbols. Before anything runs, the
    conditions on sizes that the graph relies on are tested on every rank's inputs (BranchDivergence if one does not
    hold), and the graphs are compared (GraphDivergence if they differ). torch's other guards are voted on. All ranks
    get the same errors: those of Agreement.agree(), and CompileError for a failed trace or build. An exception of the
    function itself is raised on its rank only.

    A version is made for the order of dims in memory that a tensor has on all ranks. If ranks or calls differ in this
    order, or there are gaps between elements, the version gets a contiguous copy. What it writes to the copy is
    written back to the tensor. A result that would be a view of the tensor is a view of the copy. A tensor that shares
    memory with another argument is not copied: if its layout is not that of the version, all ranks compile another one.

    `marks` are as for Observation. Marks that torch._dynamo.mark_dynamic() and similar functions have set on the
    tensors of a call count too, if it is the first call with inputs of this structure. A size that was 0 or 1 on some
    rank is traced without a value. If the model needs that value, calls with such sizes run without a compiled version
    on all ranks, and each collective is voted on before it is issued; this is reported once, with the reason. Calls
    past `recompile_limit` run in the same way. `fields` maps the arguments to values that the ranks join before each
    trace, such as {"capacity": (512, "max")} (Observation.observe()); the function reads the joined value in
    `agreed.fields["capacity"]`, also during the trace and without a compiled version. `dynamic`: False: every size is a
    number; True: every size is a symbol where the trace allows it. `consistency`: "same_graph" or "same_collectives".
    fullgraph=False: the pieces of a function are compiled as they are reached, with the agreed sizes as symbols. Other
    parameters are as for torch.compile.

    The result for a function is a function. For a module it is a module that has the original as `_orig_mod`, and the
    original's parameters, attributes, items and signature of forward(). If the program depends on the module's class,
    use `model.forward = compile(model.forward)`. The result's `agreed` has `last` (the Agreed of the last call
    that was made together), `fields`, `fallbacks` (number of calls without a compiled version) and `agreement`."""
    if model is None:  # used as a decorator with arguments
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, disable=disable, name=name, consistency=consistency, marks=marks,
                                 fields=fields, recompile_limit=recompile_limit, process_group=process_group,
                                 group=group)
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"{model!r} is no function and no module")
    if consistency not in ("same_graph", "same_collectives"):
        raise ValueError(f"consistency is {consistency!r}; use 'same_graph' or 'same_collectives'")
    if fullgraph:
        _refuse_hooks(model)
    watched = the_watch(process_group)
    if watched is None:  # LOCKSTEP_COORDINATION=off, which watch() has reported
        return torch.compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                             options=None if options is None else dict(options))
    agreed = Compiled(model, name or _frame_of(model), watched, consistency, marks or {}, fields, dynamic, fullgraph,
                      recompile_limit, group_of_mesh(group), backend_named(backend, mode, options, dynamic),
                      f"{mode} {sorted((options or {}).items())}" if backend == "inductor" else None)
    return as_given(model, agreed)


def _refuse_hooks(model: Any) -> None:
    """Raises TypeError for models wrapped by DDP or FSDP2: these run code for communication that breaks every graph."""
    fsdp = getattr(torch.distributed, "fsdp", None)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise TypeError("DistributedDataParallel runs code of its own that has no graph; wrap what is compiled, "
                        "DistributedDataParallel(lockstep.torch.compile(model)), or use torch.compile under "
                        "lockstep.torch.watch()")
    if fsdp is not None and isinstance(model, getattr(fsdp, "FSDPModule", ())):
        raise TypeError("a module under fully_shard() runs hooks that have no graph; give "
                        "lockstep.torch.compile() a module without it, or use torch.compile under "
                        "lockstep.torch.watch()")


def _frame_of(model: Any) -> str:
    if isinstance(model, torch.nn.Module):
        return f"{type(model).__qualname__}.forward"
    return str(getattr(model, "__qualname__", type(model).__qualname__))


class _Traced(BaseException):
    """Raised when a graph has been traced, before anything of it runs."""


class _HasCollectives(BaseException):
    """Raised when a graph with collectives has been traced, before anything of it runs."""


class _Left(Exception):
    """Raised in a version before it runs, because the ranks have agreed on something else."""


class _Call:
    """A call that is being made."""

    __slots__ = ("args", "kwargs", "observation", "outcome", "until_the_end")

    def __init__(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.observation: Optional[int] = None                       # address of the library's observation
        self.outcome: Union[None, Agreed, BaseException] = None      # set if a version was left
        self.until_the_end: Optional[contextlib.ExitStack] = None


class Compiled:
    """A function compiled by compile(). `last`: the last call's Agreed. `fields`: the joined values of the last call's
    version, or of the version being traced. `fallbacks`: number of calls without a compiled version."""

    def __init__(self, model: Any, name: str, watched: Watch, consistency: str, marks: Marks,
                 fields: Optional[Fields], dynamic: Optional[bool], fullgraph: bool, recompile_limit: int, group: Any,
                 backend: Any, built_with: Optional[str]) -> None:
        """`group`: process group whose ranks make all calls together; None: see compile(). `built_with`: the options of
        inductor; None: another backend."""
        self._together = group is not None or fields is not None or bool(marks)
        self._process_group = group if group is not None else watched.process_group  # of the calls made together
        self._apart: Optional[Callable[..., Any]] = None  # the function, compiled by this rank for itself
        self.fallbacks = 0
        self._recompile_limit = recompile_limit
        self._model, self.name, self._watch, self._consistency = model, name, watched, consistency
        self._marks, self._dynamic, self._fullgraph, self._backend = marks, dynamic, fullgraph, backend
        self._signature: Any = model.forward if isinstance(model, torch.nn.Module) else model
        self._versions = Versions(fields is not None)
        self.fields = self._versions.fields  # not a property, because the traced function reads it
        self._call: Optional[_Call] = None
        self._told_why = self._is_tracing = False
        self._built_with, self._fields = built_with, fields
        self._nth = watched.count(name)
        self._lines: List[str] = []  # nodes of the graph that was traced last
        self._site = CallSite(whole=True)

    @functools.cached_property
    def agreement(self) -> Agreement:
        """Collective at its first use: in the first call that all ranks make together."""
        made = Agreement(self._frames.group, f"compile {self.name}", self._consistency,
                         automatic_dynamic=self._dynamic is not False, recompile_limit=self._recompile_limit)
        made._untested = True
        made._sites.append(self._site)
        return made

    @property
    def last(self) -> Optional[Agreed]:
        return self._versions.last

    @functools.cached_property
    def _vote(self) -> HitVote:
        return HitVote(self.agreement, self.name, self._build)

    @functools.cached_property
    def _frames(self) -> FrameVotes:
        """Collective at its first use."""
        frames = self._watch.votes_of(self._process_group)
        with frames.waiting(self.name):
            try:
                self.__dict__["_frames"] = frames  # needed by self.agreement
                self.agreement
            except ConfigMismatch as error:
                message = "ranks call different functions of lockstep.torch.compile() together for the first time"
                raise FrameMismatch(error.finding._replace(
                    code="FRAME_MISMATCH", message=message,
                    text=error.finding.text.replace(error.message, message).replace("CONFIG_", "FRAME_"))) from None
        return frames

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        watched = self._watch
        if watched.is_over:
            raise RuntimeError(f"the watch under which {self.name} was compiled has been closed; make it anew with "
                               "lockstep.torch.compile()")
        if not self._together:
            try:
                return self._by_itself(args, kwargs)
            except _HasCollectives:
                self._together = True
        with self._frames.group._turns, self._frames:
            return self._one_call(args, kwargs)

    def _by_itself(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if self._apart is None:
            copy = self._copy("apart")
            self._watch.decided_from_tales[copy.__code__] = f"{self.name} {self._nth}"
            self._apart = torch.compile(copy, fullgraph=self._fullgraph, dynamic=self._dynamic,
                                        backend=self._without_collectives)
        return self._apart(*args, **kwargs)

    def _without_collectives(self, graph: Any, inputs: List[Any]) -> Any:
        """The backend of a rank that compiles for itself. Raises _HasCollectives for a graph with collectives; with
        fullgraph=False, where a graph is only a piece of the function, the next call is made together instead."""
        groups = groups_of(graph)
        if groups:
            if len(groups) == 1 and groups[0] is not None and not self._together:
                self._process_group = groups[0]
            if self._fullgraph:
                raise _HasCollectives
            self._together = True
        return self._backend(graph, inputs)

    def _one_call(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        frames = self._frames
        before = frames.on_recompile, self._call
        frames.on_recompile = self._on_recompile
        call = self._call = _Call(args, kwargs)
        try:
            version = self._versions.like_last
            if version is not None and frames.votes_next() and looks_up() and self._read(call):
                frames.instead = self._tested
                try:
                    out = self._run(version, version.found, call)
                    if frames.instead is not None:  # PyTorch has not looked up any version
                        frames.instead = None
                        self._agreed(call)
                    elif call.outcome is not None:
                        raise RuntimeError(f"{self.name} has caught what lockstep raised to leave it; let exceptions "
                                           "of other types than yours pass")
                    return out
                except _Left:
                    pass
                finally:
                    frames.instead = None
            return self._slowly(call)
        finally:
            frames.on_recompile, self._call = before
            if call.until_the_end is not None:
                call.until_the_end.close()

    def _agreed(self, call: _Call) -> Optional[Version]:
        """Returns the version to run; None: the call runs uncompiled. The ranks agree on the version, unless they have
        done so in _tested()."""
        try:
            self._versions.settle(self._agree(call) if call.outcome is None else call.outcome)
        except GraphDivergence as error:
            raise self._parted(error) from None
        except CompileError as error:
            if NEEDS not in error.message:
                raise
            if self._frames.group.rank == 0 and not self._told_why:
                _log.warning("calls with such sizes run without a compiled version: %s", error.message)
            self._told_why = True
            self._versions.settle(Agreed(None, False, None))
        return self._versions.of_last

    def _slowly(self, call: _Call) -> Any:
        """Runs a call. The ranks vote first on the version, unless they have done so, and then on the version's
        guards."""
        version = self._agreed(call)
        if version is None:
            self.fallbacks += 1
            with self._frames.strictly(self.name):
                return self._model(*call.args, **call.kwargs)
        copied = self._copied(version, call) if version.contiguous else None
        try:
            if not self._fullgraph and self.last is not None and self.last.is_new:
                self._on_recompile()
            return self._run(version, version.run, call)
        finally:
            if copied is not None:
                copied.restore()

    def _copied(self, version: Version, call: _Call) -> Contiguous:
        try:
            copied = Contiguous(version.contiguous, self._positional(call.args), call.args, call.kwargs)
        except Exception as error:  # the other ranks are about to vote on the guards
            self._frames.fails(self.name, error)
            raise
        call.args, call.kwargs = copied.args, copied.kwargs
        return copied

    def _run(self, version: Version, run: Callable[..., Any], call: _Call) -> Any:
        """Runs a version by `run`. If the version issues the same collectives as in a run that the ranks have compared,
        these need no vote, and their notes are dropped."""
        frames, votes = self._frames, self._frames.votes
        try:
            return run(*call.args, **call.kwargs)
        finally:
            voted = frames.instead is None if run is version.found else frames.votes > votes
            if self._fullgraph and voted:
                if version.issues_as_known(self._watch.issued):
                    self._watch.notes.clear()

    def _tested(self, found: bool) -> Any:
        """Votes on a call that may run the last call's version. PyTorch has tested the version's guards; `found`: they
        hold. Returns True if the version may run, else a class that PyTorch raises in its place."""
        call, last = self._call, self.last
        assert call is not None and call.observation is not None and last is not None
        try:
            with self._frames.waiting(self.name):
                call.outcome = self._vote(call.observation, last.entry, not found)
            if call.outcome is None:
                self._versions.hit()
                return True
        except BaseException as error:
            call.outcome = error
        return _Left

    def _read(self, call: _Call) -> bool:
        try:
            call.observation = self._site.read((call.args, call.kwargs))
        except Exception:  # _agree() will raise this exception again, and report it to all ranks
            return False
        return call.observation is not None

    def _on_recompile(self) -> None:
        """Called when a frame compiles although a version is being run: because of guards that the decision does not
        cover, or because the frame is a piece of the function (fullgraph=False). Makes the agreed sizes symbols in that
        compile."""
        call = self._call
        decision = self._versions.decision
        if call is not None and decision is not None:
            if call.until_the_end is None:
                call.until_the_end = contextlib.ExitStack()
            example = Example(decision, self._positional(call.args), call.args, call.kwargs, marks_only=True)
            call.until_the_end.enter_context(tracing_as_decided(example.dynamic_ints))

    def _parted(self, error: GraphDivergence) -> GraphDivergence:
        """Collective: returns the error, with a text that also names the first node in which the ranks' traced graphs
        differ."""
        lines, self._lines = self._lines, []
        _, seen = self.agreement.audit(f"the graph of {self.name}", None, compared(lines), None, is_new=True,
                                       program_text="\n".join([f"{len(lines)} nodes", *lines]))
        where = None if seen is None else re.search(r"from line \d+ on \(.*?\)(?=; )", seen.message)
        if where is None:
            return error  # the graphs do not differ
        message = f"{error.message}; in {title_of(self._process_group)} the graphs differ {where.group()}"
        return GraphDivergence(error.finding._replace(message=message,
                                                      text=error.finding.text.replace(error.message, message)))

    def _agree(self, call: _Call) -> Agreed:
        with self._frames.waiting(self.name):
            try:
                read, observation = call.observation, None
                if read is None and self._fields is None:  # no plan reads fields
                    read = self._site.read((call.args, call.kwargs))
                if read is None:
                    with _told(self._frames.group, "BAD_INPUT"):
                        observation = self._observation(call.args, call.kwargs)
                        if self._fields is None:
                            self._site.learn((call.args, call.kwargs), observation)
            except Exception:
                self.agreement.agree(self.name, None, self._build)  # the other ranks are about to make the call
                raise
            if read is None:
                return self.agreement.agree(self.name, observation, self._build)
            return self.agreement._agree(self.name, read, self._build, [])

    def _build(self, entry: int, decision: Decision) -> str:
        assert self._call is not None
        args, kwargs = self._call.args, self._call.kwargs
        small = frozenset(s.source for s in decision.symbols.values()
                          if (s.min is None or s.min < 2) and not is_layout(s.source, decision))
        return self._versions.make(entry, decision, small, lambda: self._make(entry, decision, args, kwargs), self._needs_a_value)

    def _needs_a_value(self, error: Exception) -> Optional[str]:
        return f"{self.name} {NEEDS}: {_first_line(error)}" if needs_a_value(error) else None

    def _observation(self, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> Observation:
        inputs = _named(self._signature, args, kwargs)
        marks: Dict[str, Dict[int, str]] = {}
        for name, value in inputs.items():
            marks_of(value, name, marks, bool(self._dynamic))
        for name, dims in self._marks.items():
            marks.setdefault(name, {}).update(dims)
        observation = Observation.of(inputs, marks, whole=True)
        for name, (value, join) in (self._fields(*args, **kwargs) if self._fields else {}).items():
            observation.observe(name, value, join)
        return observation

    def _positional(self, args: Tuple[Any, ...]) -> List[str]:
        return list(_named(self._signature, args, {}))

    def _make(self, entry: int, decision: Decision, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Makes version `entry`; returns the text by which ranks compare the version."""
        example = Example(decision, self._positional(args), args, kwargs)
        guards: List[SizeGuard] = []
        uniform: List[UniformSize] = []
        copy, backend = self._copy(f"v{entry}"), self._tracing(example.names, guards, uniform)
        version = torch.compile(copy, fullgraph=self._fullgraph, dynamic=self._dynamic, backend=backend)
        # Runs the same compiled code at lower cost: with fullgraph PyTorch prepares a compile on every call.
        found = torch.compile(copy, dynamic=self._dynamic, backend=backend)
        made = Version(version, found, made_contiguous(decision), [])
        if not self._fullgraph or not compiles():
            # Not traced now, because code before the first graph would run twice.
            self._versions.keep(entry, made)
            return "in pieces"
        self._is_tracing = True
        self._frames.group.note(f"compiling {self.name}")
        self._watch.progress.compile_starts()
        try:
            with self._watch.tracing() as graphs, tracing_as_decided(example.dynamic_ints), \
                    self._sharing(decision):
                with contextlib.suppress(_Traced):
                    version(*example.args, **example.kwargs)
        finally:
            self._is_tracing = False
            self._watch.progress.compile_ends()
        # Sorted: the order in which a backend adds guards depends on whether it finds the graph in its cache.
        for guard in sorted({known.condition: known for known in reversed(guards)}.values()):
            decision.guard(guard.condition, guard.place or self.name)
        for known in uniform:
            decision.uniform(known.size, known.what, known.place or self.name)
        self._versions.keep(entry, made)
        self._lines = [line for graph in graphs for line in (
            graph.nodes if self._consistency == "same_graph" else graph.collectives)]
        return compared(self._lines) or "nothing"

    def _sharing(self, decision: Decision) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which, with inductor, rank 0 builds for all ranks."""
        if self._built_with is None:
            return contextlib.nullcontext()
        name = f"{self.name} {self._nth} {self._built_with}"
        return SharedBuild(decision, name, self._frames.group.rank == 0, self._watch.progress.compile_starts).building()

    def _copy(self, which: str) -> Callable[..., Any]:
        """Returns a copy of the function with a code object of its own, because torch keeps versions by code object."""
        model = self._model

        def call(*args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)
        name = f"{re.sub('[^0-9a-zA-Z]', '_', self.name)}_{self._nth}_{which}"  # the key of torch's record of sizes
        made: Callable[..., Any] = outside(call, name, self.name, *_place(model, self.name))
        made.__qualname__ = f"{self.name} ({which})"
        return made

    def _tracing(self, names: Mapping[str, str], guards: List[SizeGuard], uniform: List[UniformSize]) -> Callable[..., Any]:
        """Returns the backend for a version. During the version's trace, the functions that the backend returns do not
        run, and the backend adds the conditions of the graph to `guards` and its uniform sizes to `uniform`. `names`:
        see size_guards()."""
        def backend(graph: Any, inputs: List[Any]) -> Any:
            shape_env = shape_env_of(inputs) if self._is_tracing else None
            if shape_env is not None and self._consistency == "same_graph":  # before the backend changes the graph
                uniform.extend(uniform_sizes(graph, self._process_group, shape_env, names))
            compiled = self._backend(graph, inputs)
            if shape_env is not None:
                guards.extend(size_guards(shape_env, names))

            @functools.wraps(compiled, assigned=())
            def run(*values: Any) -> Any:
                if self._is_tracing:
                    raise _Traced
                return compiled(*values)
            return run
        return backend


def _place(model: Any, name: str) -> Tuple[str, int]:
    """Returns the file and the line of the compiled function."""
    function = type(model).forward if isinstance(model, torch.nn.Module) else inspect.unwrap(model)
    code = getattr(function, "__code__", None)
    if code is None or not is_user(code.co_filename):
        return f"<{name}>", 1
    return code.co_filename, code.co_firstlineno


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line), type(error).__name__)
