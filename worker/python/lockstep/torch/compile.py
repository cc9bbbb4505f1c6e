"""compile(): in place of torch.compile, with sizes that all ranks have agreed on."""

from __future__ import annotations

import functools
import re
import sys
import types
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

import torch

from ..agreement import Agreed, Agreement
from ..call_site import CallSite
from ..decision import Decision
from ..errors import CompileError, GraphDivergence
from ..observation import Observation
from ..wrappers import _named, _told
from ._hooks import backend_named, needs_a_value, shape_env_of, tracing_as_decided
from .example import Example, marks_of
from .guard_text import SizeGuard, size_guards
from .watch import Watch, the_watch

Marks = Mapping[str, Mapping[int, str]]


def compile(model: Any = None, *, fullgraph: bool = True, dynamic: Optional[bool] = None,
            backend: Any = "inductor", mode: Optional[str] = None, options: Optional[Mapping[str, Any]] = None,
            disable: bool = False, name: Optional[str] = None, consistency: str = "same_graph",
            marks: Optional[Marks] = None, recompile_limit: int = 8, process_group: Any = None) -> Any:
    """torch.compile(model), a function or a module, for a job in which every rank compiles. Making it is
    collective. Starts watch(), where it has not been called, over `process_group`.

    Before each call the ranks agree on the sizes, ints, bools, dtypes and needs of a gradient of the
    inputs, and on a version that fits all of them. Where none does, all ranks trace one at the same sizes:
    those that have been alike so far as numbers, others as symbols. The conditions on sizes that the graph
    relies on are tested on every rank's inputs (else BranchDivergence), and the graphs compared (else
    GraphDivergence), before anything runs. torch's other guards are voted, as by watch(). Errors, alike on
    all ranks: those of Agreement.agree(); a trace or build that failed is CompileError.

    `marks` as for Observation; marks set by torch._dynamo.mark_dynamic() and its kin on the tensors of the
    first call of a structure count too. A size that was 0 or 1 on some rank is traced without a value; if
    the model needs its value, calls with such sizes run without a compiled version, on all ranks, which is
    told once with the reason; then each collective is voted before it is issued. So it is past
    `recompile_limit`. `dynamic=False`: every size is a number.
    fullgraph=False: what comes after a graph break is compiled as watch() has it. Other parameters as
    torch.compile."""
    if model is None:  # used as a decorator with arguments
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, disable=disable, name=name, consistency=consistency, marks=marks,
                                 recompile_limit=recompile_limit, process_group=process_group)
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"{model!r} is no function and no module")
    if fullgraph:
        _refuse_hooks(model)
    watched = the_watch(process_group)
    if watched is None:
        return model  # LOCKSTEP_COORDINATION=off is said by watch()
    named = name or _frame_of(model)
    agreement = Agreement(watched.group, f"compile {named}", consistency, automatic_dynamic=dynamic is not False,
                          recompile_limit=recompile_limit)
    step = _Compiled(model, named, watched, agreement, marks or {},
                     functools.partial(torch.compile, fullgraph=fullgraph),
                     backend_named(backend, mode, options, dynamic))
    return _Module(model, step) if isinstance(model, torch.nn.Module) else functools.wraps(model, updated=())(step)


def _refuse_hooks(model: Any) -> None:
    """Of modules around a model whose own code for communication breaks every graph."""
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


class _Traced(Exception):
    """The graph is there; nothing of it is to run yet."""


#: In the error of all ranks where a trace needed what it could not have.
_NEEDS = "cannot be traced for sizes that may be 0 or 1"


class _NeedsValue(Exception):
    """A trace needed the value of a size that may be 0 or 1."""


class _Compiled:
    """`last`: the last call's Agreed; `fallbacks`: how many calls ran without a compiled version."""

    def __init__(self, model: Any, name: str, watched: Watch, agreement: Agreement, marks: Marks,
                 compiler: Callable[..., Any], backend: Any) -> None:
        self.last: Optional[Agreed] = None
        self.fallbacks = 0
        self._told_why = self._is_tracing = False
        self._lines: List[str] = []  # of the graph that was traced last
        self._model, self._name, self._watch, self.agreement = model, name, watched, agreement
        self._marks, self._compiler, self._backend = marks, compiler, backend
        self._signature: Any = model.forward if isinstance(model, torch.nn.Module) else model
        self._versions: Dict[int, Callable[..., Any]] = {}
        self._needs: Dict[FrozenSet[str], str] = {}  # sizes without which no trace is possible, and why
        self._site = CallSite(gradients=True)
        agreement._sites.append(self._site)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self.last = self._agree(args, kwargs)
        except GraphDivergence as error:
            raise self._parted(error) from None
        except CompileError as error:
            if _NEEDS not in error.message:
                raise
            if self._watch.group.rank == 0 and not self._told_why:
                print(f"lockstep: calls with such sizes run without a compiled version: {error.message}",
                      file=sys.stderr)
            self._told_why = True
            self.last = Agreed(None, False, None)
        run = self._versions.get(-1 if self.last.entry is None else self.last.entry)
        with _told(self._watch.group, "RUNTIME_ASSERT"):
            if run is not None:
                return run(*args, **kwargs)
            self.fallbacks += 1
            with self._watch.voting(self._name):
                return self._model(*args, **kwargs)

    def _parted(self, error: GraphDivergence) -> GraphDivergence:
        """The same, of graphs that ranks have traced, with the first node that differs. Collective."""
        lines, self._lines = self._lines, []
        _, seen = self.agreement.audit(f"the graph of {self._name}", None, _compared(lines), None, is_new=True,
                                       program_text="\n".join([f"{len(lines)} nodes", *lines]))
        where = None if seen is None else re.search(r"from line \d+ on \(.*?\)(?=; )", seen.message)
        if where is None:
            return error  # it is about something else
        message = f"{error.message}; the graphs differ {where.group()}"
        return GraphDivergence(error.finding._replace(message=message,
                                                      text=error.finding.text.replace(error.message, message)))

    def _agree(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Agreed:
        def make(entry: int, decision: Decision) -> str:
            self._versions.pop(entry, None)
            small = frozenset(s.source for s in decision.symbols.values() if s.min is None or s.min < 2)
            if small in self._needs:
                raise _NeedsValue(self._needs[small])
            try:
                return self._make(entry, decision, args, kwargs)
            except _NeedsValue as error:
                self._needs[small] = str(error)
                raise
        try:
            with _told(self._watch.group, "BAD_INPUT"):
                read, observation = self._site.read((args, kwargs)), None
                if read is None:
                    observation = self._observation(args, kwargs)
                    self._site.learn((args, kwargs), observation)
        except Exception:
            self.agreement.agree(self._name, None, make)  # the others are on their way into the call
            raise
        if read is None:
            return self.agreement.agree(self._name, observation, make)
        return self.agreement._agree(self._name, read, make, [])

    def _observation(self, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> Observation:
        inputs = _named(self._signature, args, kwargs)
        marks: Dict[str, Dict[int, str]] = {}
        for name, value in inputs.items():
            marks_of(value, name, marks)
        for name, dims in self._marks.items():
            marks.setdefault(name, {}).update(dims)
        return Observation.of(inputs, marks, gradients=True)

    def _make(self, entry: int, decision: Decision, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Version `entry`; returns what ranks compare of it."""
        names = list(_named(self._signature, args, {}))
        example = Example(decision, names, args, kwargs, "L['{}']")
        guards: List[SizeGuard] = []
        version = self._compiler(self._copy(entry), backend=self._tracing(example, guards))
        self._is_tracing = True
        try:
            with self._watch.tracing() as graphs, tracing_as_decided(example.dynamic_ints):
                version(*example.args, **example.kwargs)
        except _Traced:
            pass
        except Exception as error:
            if not needs_a_value(error):
                raise
            raise _NeedsValue(f"{self._name} {_NEEDS}: {_first_line(error)}") from error
        finally:
            self._is_tracing = False
        for guard in guards:
            decision.guard(guard.condition, guard.place or self._name)
        self._versions[entry] = version
        self._lines = [line for graph in graphs for line in graph.nodes]
        return _compared(self._lines) or "no graph"

    def _copy(self, entry: int) -> Callable[..., Any]:
        """A function of its own for torch.compile, whose versions torch keeps by code."""
        model = self._model

        def call(*args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)
        code = call.__code__.replace(co_name=f"{re.sub('[^0-9a-zA-Z]', '_', self._name)}_v{entry}",
                                     co_filename=f"<{self._name}>")  # no file of this package
        made = types.FunctionType(code, call.__globals__, code.co_name, None, call.__closure__)
        made.__qualname__ = f"{self._name} (version {entry})"
        return made

    def _tracing(self, example: Example, guards: List[SizeGuard]) -> Callable[..., Any]:
        """The backend, whose results do not run while the version is traced; then what the graph relies
        on goes to `guards`."""
        def backend(graph: Any, inputs: List[Any]) -> Any:
            compiled, shape_env = self._backend(graph, inputs), shape_env_of(inputs)
            if shape_env is not None and self._is_tracing:
                guards.extend(size_guards(shape_env, example.names))

            @functools.wraps(compiled, assigned=())
            def run(*values: Any) -> Any:
                if self._is_tracing:
                    raise _Traced
                return compiled(*values)
            return run
        return backend


def _compared(lines: List[str]) -> str:
    """Without the places in the user's code."""
    return "\n".join(line.split("\t", 1)[0] for line in lines)


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line), type(error).__name__)


class _Module(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A module with the parameters of the compiled one, as `_orig_mod`."""

    def __init__(self, module: torch.nn.Module, step: _Compiled) -> None:
        super().__init__()
        self._orig_mod = module
        self._step = step

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._step(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("last", "agreement", "fallbacks"):
            return getattr(self.__dict__["_step"], name)
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)
