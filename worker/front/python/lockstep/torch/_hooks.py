"""What lockstep.torch uses of torch beyond its public interface. "Seen in" names the versions of torch in which
something was seen. Run with torch 2.15 and 2.8."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import threading
import types
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch

from .frame_tales import Seen
from .frames import Compile

_torch: Any = torch
_c10d: Any = importlib.import_module("torch.distributed.distributed_c10d")


def default_store() -> Any:
    """Returns the store that init_process_group() has set up. Seen in 2.15."""
    find = getattr(_c10d, "_get_default_store", None)
    if find is None:
        raise RuntimeError(f"torch {torch.__version__} does not show the store of init_process_group; open "
                           "lockstep.Group() with LOCKSTEP_RENDEZVOUS, LOCKSTEP_RANK and "
                           "LOCKSTEP_WORLD_SIZE set on every rank")
    return find()


def pick_feedbacks(selection: Any) -> Any:
    """Returns inductor's list of functions that see what its autotuner has measured, and may change it. `selection`: the
    module torch._inductor.select_algorithm; None: it is not loaded. Returns None if there is no such list. Seen in 2.15."""
    find = getattr(selection, "get_algorithm_selector_cache", None)
    return None if find is None else getattr(find(), "feedback_saver_fns", None)


def store_host(store: Any) -> Optional[str]:
    """Returns the host of a store over TCP; None: the store is of another kind. underlying_store: seen in 2.15."""
    seen = 0
    while seen < 8 and hasattr(store, "underlying_store"):
        store, seen = store.underlying_store, seen + 1
    host = getattr(store, "host", None)
    return host if isinstance(host, str) else None


class _Thread(threading.local):
    """What FrameEvents knows of a thread's compile."""

    late: Optional[BaseException] = None     # what `started` raised; the next hook raises it
    code: Optional[types.CodeType] = None    # the code whose compile has started
    handled: Optional[BaseException] = None  # the exception that the program was handling when the compile started


class FrameEvents:
    """Events of torch.compile's frames, on any thread. Hooks of torch._dynamo seen in 2.15: the guard-complete hook,
    compile callbacks, bytecode hooks."""

    def __init__(self, looked_up: Callable[[bool], bool], started: Callable[[Compile], None],
                 traced: Callable[[types.CodeType, types.CodeType, Any], None],
                 ended: Callable[[Optional[BaseException], bool], None],
                 backward: Callable[[bool], None],
                 unraised: Callable[[BaseException, types.CodeType], None]) -> None:
        """The parameters are called at these events. `looked_up`(found): the guards of a frame with versions have been
        tested; `found`: a version fits. Returns whether that version may run; otherwise the frame compiles. Called only
        after look_up(True); must not raise. `started`: a frame begins to compile, for the first time or because no
        version fits. Not called for a compile within another. `traced`: a frame has been traced, and nothing of it has
        run; gets the frame's code, the code that runs instead, and the result of the trace. Not called if nothing was
        traced. `ended`: the compile has ended; gets the compile's error, and whether the frame then runs without a
        graph. Must not raise. `backward`(starts): the build of a backward graph starts (True) or has ended (False),
        within the backward pass. `unraised`: `started` raised, but this version of torch does not propagate that and
        runs the frame without a graph; gets the exception and the frame's code."""
        try:
            callback: Any = importlib.import_module("torch._dynamo.callback")
            convert_frame: Any = importlib.import_module("torch._dynamo.convert_frame")
            self._set_hook = _torch._C._dynamo.eval_frame.set_guard_complete_hook
            self._callbacks = callback.callback_handler
            self._frame_trigger = callback.CallbackTrigger.DYNAMO
            self._backward_trigger = callback.CallbackTrigger.LAZY_BACKWARD
            self._start_raises = _passes_on(callback)
            self._entrance = convert_frame.CatchErrorsWrapper.__call__.__code__
            register = convert_frame.register_bytecode_hook
        except (ImportError, AttributeError) as error:
            raise RuntimeError(f"torch {torch.__version__} lacks a hook that lockstep.torch.watch() needs "
                               f"({error}); lockstep.agreed() and lockstep.torch.group() work "
                               "without it") from error
        never_compile(__name__.split(".", 1)[0])  # lockstep's functions run between frames of the program
        self._started, self._traced, self._ended, self._backward = started, traced, ended, backward
        self._unraised = unraised
        self._of = _Thread()
        self._looked_up = looked_up
        self._before: Optional[Tuple[Any]] = None  # the hook that was set before
        self._register()
        self._bytecode = register(self._bytecode_hook)

    def _register(self) -> None:
        self._callbacks.register_start_callback(self._start)
        self._callbacks.register_end_callback(self._end)

    def _is_registered(self) -> bool:
        """True if the callbacks are registered: torch.compiler.reset() removes all callbacks, but no other hook."""
        return self._start in self._callbacks.start_callbacks

    def look_up(self, on: bool) -> None:
        """Sets whether the event `looked_up` is reported."""
        if on and self._before is None:
            self._before = (self._set_hook(self._looked_up),)
        elif not on and self._before is not None:
            self._set_hook(self._before[0])
            self._before = None

    def remove(self) -> None:
        self.look_up(False)
        if self._is_registered():
            self._callbacks.remove_start_callback(self._start)
            self._callbacks.remove_end_callback(self._end)
        self._bytecode.remove()

    def _start(self, args: Any) -> None:
        if args.callback_trigger is self._frame_trigger:
            try:
                self._begin()
            except BaseException as error:
                if self._start_raises:
                    raise
                self._of.late = error
        elif args.callback_trigger is self._backward_trigger:
            self._backward(True)

    def _begin(self) -> None:
        self._of.handled = sys.exc_info()[1]
        frame: Optional[types.FrameType] = sys._getframe(1)
        while frame is not None and frame.f_code is not self._entrance:
            frame = frame.f_back
        if frame is not None:
            of = frame.f_locals["frame"]
            self._of.code = of.f_code
            self._started(Compile(of.f_code, getattr(of, "closure", None), dict(of.f_locals), frame.f_back))

    def _bytecode_hook(self, code: types.CodeType, made: types.CodeType) -> None:
        late, self._of.late = self._of.late, None
        if late is not None:
            raise late
        if not self._is_registered():
            self._register()
            self._begin()  # after the trace, but before anything of the frame runs
        frame: Optional[types.FrameType] = sys._getframe(1)
        while frame is not None and _output_of(frame) is None:
            frame = frame.f_back
        if frame is None:
            raise RuntimeError(f"torch {torch.__version__} does not show what it has traced; lockstep.torch.watch() and "
                               "compile() cannot compare it")
        self._traced(code, made, _output_of(frame))

    def _end(self, args: Any) -> None:
        if args.callback_trigger is self._backward_trigger:
            self._backward(False)
        if args.callback_trigger is not self._frame_trigger:
            return
        error = sys.exc_info()[1]
        if error is self._of.handled:
            error = None
        self._of.handled = None
        late, self._of.late = self._of.late, None
        if late is not None and self._of.code is not None and (error is None or self._goes_on(error)):
            return self._unraised(late, self._of.code)
        self._ended(error, error is not None and self._goes_on(error))

    def _goes_on(self, error: BaseException) -> bool:
        """Returns whether torch runs the frame without a graph after this error."""
        exc: Any = importlib.import_module("torch._dynamo.exc")
        config: Any = importlib.import_module("torch._dynamo.config")
        if not isinstance(error, Exception) or not (config.suppress_errors or
                                                    isinstance(error, (exc.Unsupported, exc.UserError))):
            return False
        frame: Optional[types.FrameType] = sys._getframe(1)
        while frame is not None and "one_graph" not in frame.f_locals:
            frame = frame.f_back
        return frame is not None and not frame.f_locals["one_graph"]


def _output_of(frame: types.FrameType) -> Optional[Any]:
    """Returns the result of the trace if `frame` is torch's function that compiles; else None. Seen in 2.8, 2.11
    (tracer_output) and 2.15."""
    for output in (frame.f_locals.get("output"), getattr(frame.f_locals.get("tracer_output"), "output_graph", None)):
        if hasattr(output, "graph"):
            return output
    return None


class _Probe(Exception):
    pass


def _passes_on(callback: Any) -> bool:
    """Returns whether a compile propagates what its start callback raises. True in 2.15, not in 2.8."""
    def fails(args: Any) -> None:
        raise _Probe
    handler = callback.CompilationCallbackHandler()
    handler.register_start_callback(fails)
    try:
        with handler.install_callbacks(callback.CallbackTrigger.DYNAMO, ""):
            return False
    except _Probe:
        return True
    except Exception:
        return False


class BackwardGraphs:
    """Collects backward graphs where AOTAutograd splits them from joint graphs. Uses joint_custom_pass, which torch
    calls right before the split, and the name of a local variable there: seen in 2.15. Other versions may show no
    graphs."""

    def __init__(self) -> None:
        self._config: Any = importlib.import_module("torch._functorch.config")
        self._thread = threading.get_ident()
        self._frames: List[types.FrameType] = []
        self._hits = _cache_hits()
        self._is_here = hasattr(self._config, "joint_custom_pass")
        self._before = getattr(self._config, "joint_custom_pass", None)
        if self._is_here:
            setattr(self._config, "joint_custom_pass", self._joint)

    def _joint(self, joint: Any, inputs: Any) -> Any:
        frame = sys._getframe(1)
        if "bw_module" in frame.f_code.co_varnames and threading.get_ident() == self._thread:
            self._frames.append(frame)
        return self._before(joint, inputs) if callable(self._before) else joint

    def take(self) -> Optional[List[Any]]:
        """Returns the backward graphs split off since the last take(), as GraphModules; None: torch took some from a
        cache, or this version of torch shows none. Call it soon after a compile: until then this object keeps the
        frames of the split alive, with all that their callers hold."""
        frames, self._frames = self._frames, []
        hits, self._hits = self._hits, _cache_hits()
        found = [frame.f_locals.get("bw_module") for frame in frames]
        return None if self._hits != hits or not self._is_here else [graph for graph in found if graph is not None]

    def remove(self) -> None:
        self._frames.clear()
        if self._is_here and self._config.joint_custom_pass == self._joint:
            self._config.joint_custom_pass = self._before


def _cache_hits() -> int:
    counters: Any = importlib.import_module("torch._dynamo.utils").counters
    return int(counters["aot_autograd"]["autograd_cache_hit"])


def _frame_state(code: types.CodeType, closure: Any) -> Any:
    """Returns torch's record of the sizes of a frame's inputs, by source; None: this version of torch does not show the
    record. torch._dynamo.pgo: seen in 2.8, 2.11 and 2.15."""
    try:
        pgo: Any = importlib.import_module("torch._dynamo.pgo")
        known = {"closure": closure} if "closure" in inspect.signature(pgo.CodeId.make).parameters else {}
        return pgo.get_code_state()[pgo.CodeId.make(code, **known)].automatic_dynamic
    except (ImportError, AttributeError):
        return None


def sizes_seen(code: types.CodeType, closure: Any) -> Dict[str, Seen]:
    """Returns the sizes of a frame's inputs in all its compiles so far, by source; None for a size that varied."""
    def one(value: Any) -> Optional[int]:
        return value if type(value) is int else None
    found: Dict[str, Seen] = {}
    for source, entry in (_frame_state(code, closure) or {}).items():
        if isinstance(entry.size, tuple):
            found[source] = [one(size) for size in entry.size]
        elif type(entry.scalar) in (int, _auto_dynamic()):
            found[source] = one(entry.scalar)
    return found


def _auto_dynamic() -> type:
    return type(importlib.import_module("torch._dynamo.pgo").auto_dynamic)


def see_sizes(code: types.CodeType, closure: Any, seen: Mapping[str, Seen]) -> None:
    """Merges `seen` into torch's record, as though this process had also compiled the frame for these sizes: sizes that
    vary become symbols."""
    state = _frame_state(code, closure)
    if state is None:
        return
    pgo: Any = importlib.import_module("torch._dynamo.pgo")
    for source, sizes in seen.items():
        known = state[source].size if source in state else None
        if isinstance(sizes, list):
            if isinstance(known, tuple) and len(known) != len(sizes):
                continue  # the peer has another number of dims
            other = pgo.FrameStateSizeEntry.make_size(tuple(pgo.auto_dynamic if size is None else size for size in sizes))
        elif isinstance(known, tuple):
            continue  # a tensor here, a number on the peer
        else:
            other = pgo.FrameStateSizeEntry.make_scalar(pgo.auto_dynamic if sizes is None else sizes)
        state[source] |= other


def never_compile(package: str) -> None:
    """Makes torch.compile skip functions of this package. Seen in 2.15."""
    rules: Any = importlib.import_module("torch._dynamo.trace_rules")
    rules.add(package)


def wrapped_function(frame: types.FrameType) -> Optional[Any]:
    """Returns the function that torch.compile has wrapped, if `frame` is a frame of the wrapper; else None. Seen in
    2.15."""
    code = frame.f_code
    if code.co_name not in ("compile_wrapper", "_fn") or not code.co_filename.endswith("_dynamo/eval_frame.py"):
        return None
    return frame.f_locals.get("fn")


def called_module(frame: types.FrameType) -> Optional[Any]:
    """Returns the module whose forward() is being called, if `frame` is torch's code that calls it, with or without
    hooks; else None. Seen in 2.15."""
    code = frame.f_code
    if code.co_name not in ("_call_impl", "inner") or not code.co_filename.endswith("nn/modules/module.py"):
        return None
    return frame.f_locals.get("self")


def passing(error: Exception) -> BaseException:
    """Returns the error as an instance of a subclass that torch.compile passes on to its caller unchanged. (Other
    errors are wrapped by torch.compile in an exception of its own.) Seen in 2.15."""
    exc: Any = importlib.import_module("torch._dynamo.exc")
    kind = type(error)
    made = type(kind.__name__, (kind, exc.ShortenTraceback), {
        "__module__": kind.__module__, "__qualname__": kind.__qualname__})
    out: BaseException = made.__new__(made, *error.args)
    out.__dict__.update(error.__dict__, first_useful_frame=sys._getframe(1), frame_exec_strategy=None,
                        apply_to_code=True)
    return out


class Kernels:
    """Functions in front of operators of torch.distributed (namespace c10d), for eager and compiled calls alike. They
    are kernels of the dispatch key BackendSelect, for which these operators have no kernel. (A dispatch mode in their
    place would make torch compile nothing.) BackendSelect and OpOverload.redispatch(): seen in 2.15."""

    def __init__(self, before: Dict[str, Callable[..., Any]], after: Callable[[Any], None]) -> None:
        """`before`: functions by the name of an operator ("allreduce_"), called with its arguments. `after`: called
        with the result of `before` once the operation has been issued."""
        self._library = _torch.library.Library("c10d", "IMPL")
        keys = _torch._C._dispatch_keyset_full_after(_torch._C.DispatchKey.BackendSelect)
        for name, call in before.items():
            operator = getattr(_torch.ops.c10d, name, None)
            if operator is not None:  # this version of torch has the operator
                self._library.impl(name, self._kernel(operator.default, call, after, keys), "BackendSelect",
                                   with_keyset=True)

    @staticmethod
    def _kernel(operator: Any, before: Callable[..., Any], after: Callable[[Any], None], below: Any) -> Callable[..., Any]:
        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            found = before(*args, **kwargs)
            out = operator.redispatch(keys & below, *args, **kwargs)
            after(found)
            return out
        return kernel

    def remove(self) -> None:
        self._library._destroy()


def group_of(handle: Any) -> Any:
    """Returns the ProcessGroup that an operator's argument stands for. Seen in 2.15."""
    return _torch.distributed.ProcessGroup.unbox(handle)


def reduction(handle: Any) -> str:
    """Returns the reduction that an operator's argument stands for, such as "sum"; "": this version of torch does not
    show it. Seen in 2.15, not in 2.8."""
    if not hasattr(_torch.distributed.ReduceOp, "unbox"):
        return ""
    op = _torch.distributed.ReduceOp.unbox(handle).op
    if op not in _reductions:
        _reductions[op] = str(op).rsplit(".", 1)[-1].lower()
    return _reductions[op]


_reductions: Dict[Any, str] = {}


def group_named(name: str) -> Any:
    """Returns the ProcessGroup that has this name in graphs; None: no such group. Seen in 2.15."""
    try:
        return _c10d._resolve_process_group(name)
    except (AttributeError, RuntimeError, ValueError):
        return None


def groups_made() -> List[Tuple[Any, List[int]]]:
    """Returns the process groups of this process, each with its members' ranks in the job, in the order in which they
    were made. Seen in 2.15."""
    return [(group, list(ranks)) for group, ranks in _c10d._world.pg_group_ranks.items()]


def _groups_counted() -> Optional[int]:
    """Returns torch's count of groups, which, with the ranks, makes the name of a group that only its members make;
    None: this version of torch does not show the count. Seen in 2.8, 2.11 (pg_names), 2.15 (group_count)."""
    code = getattr(getattr(_c10d, "_hash_ranks_to_str", None), "__code__", None)
    return None if code is None else (
        int(_c10d._world.group_count) if "group_count" in code.co_names else len(_c10d._world.pg_names))


class GroupMaking:
    """Wraps each call that makes a process group: new_group(), and functions that use new_group(). Every rank of the
    job makes the call, or, with use_local_synchronization, only the group's members. _new_group_with_tag: seen in 2.8
    and 2.15."""

    def __init__(self, around: Callable[[List[int], List[int], Optional[int]], ContextManager[None]]) -> None:
        """`around`(ranks of the group, ranks that make the call, count of groups of this rank): returns the context
        for the call. The count is None if it need not be equal on the ranks that make the call."""
        self._makes: Any = getattr(_c10d, "_new_group_with_tag", None)
        if self._makes is None:
            return
        parameters = inspect.signature(self._makes)

        @functools.wraps(self._makes)
        def make(*args: Any, **kwargs: Any) -> Any:
            given = parameters.bind(*args, **kwargs).arguments
            everybody = list(range(_c10d.get_world_size()))
            ranks = everybody if given.get("ranks") is None else [int(rank) for rank in given["ranks"]]
            ranks = sorted(ranks) if given.get("sort_ranks", True) else ranks
            is_local = bool(given.get("use_local_synchronization"))
            come = ranks if is_local else everybody
            if _c10d.get_rank() not in come:
                return self._makes(*args, **kwargs)
            with around(ranks, come, _groups_counted() if is_local else None):
                return self._makes(*args, **kwargs)
        self._make = make
        setattr(_c10d, "_new_group_with_tag", make)

    def remove(self) -> None:
        if self._makes is not None and _c10d._new_group_with_tag is self._make:
            setattr(_c10d, "_new_group_with_tag", self._makes)


def nested_graphs(output: Any) -> Dict[str, Any]:
    """Returns the graphs within a frame's graph, such as those of checkpointed regions, by name. Seen in 2.15."""
    modules = getattr(output, "nn_modules", None) or {}
    return {name: module.graph for name, module in modules.items()
            if isinstance(module, torch.fx.GraphModule)}


def _stance() -> Any:
    return getattr(getattr(_torch._dynamo.eval_frame, "_stance", None), "stance", "default")


def compiles() -> bool:
    """Returns whether torch.compile compiles now: compiling is not disabled, and no stance forbids it. Seen in 2.15."""
    config: Any = importlib.import_module("torch._dynamo.config")
    return not config.disable and _stance() == "default"


def looks_up() -> bool:
    """Returns whether torch looks up the versions of a frame; under a dispatch mode it runs the frame uncompiled.
    Seen in 2.15."""
    return bool(_stance() == "default" and _torch._C._len_torch_dispatch_stack() == 0)


def _at_once(aot: Any) -> Dict[str, bool]:
    """Returns the setting that builds the backward graph together with the forward graph. Seen in 2.15."""
    return {"force_non_lazy_backward_lowering": True} if hasattr(aot, "force_non_lazy_backward_lowering") else {}


@contextlib.contextmanager
def tracing_as_decided(dynamic_ints: Sequence[str]) -> Iterator[None]:
    """Inside this context, only marked sizes and ints become symbols, each a symbol of its own, and backward graphs are
    traced, not taken from torch's cache of builds. dynamic_sources: seen in 2.15."""
    dynamo: Any = importlib.import_module("torch._dynamo.config")
    shapes: Any = importlib.import_module("torch.fx.experimental._config")
    aot: Any = importlib.import_module("torch._functorch.config")
    with dynamo.patch(automatic_dynamic_shapes=False, assume_static_by_default=True, capture_scalar_outputs=True), \
            shapes.patch(use_duck_shape=False), \
            aot.patch(enable_autograd_cache=False, **_at_once(aot)), \
            _torch.compiler.config.patch(dynamic_sources=",".join(dynamic_ints)):
        yield


def backend_named(backend: Any, mode: Any, options: Any, dynamic: Any) -> Any:
    """Returns the function that torch.compile, given this backend, would call with a graph and its inputs. Seen in
    2.15."""
    if backend == "inductor":
        return _torch._TorchCompileInductorWrapper(mode, options, dynamic)
    return _torch._TorchCompileWrapper(backend, mode, options, dynamic)


@contextlib.contextmanager
def artifacts_apart() -> Iterator[Callable[[], Optional[bytes]]]:
    """Yields a function that returns exactly the artifacts that inductor has cached inside this context; None: nothing.
    The program's own torch.compiler.save_cache_artifacts() does not include them.
    CacheArtifactManager.with_fresh_cache: seen in 2.8 and 2.15."""
    manager: Any = importlib.import_module("torch.compiler._cache").CacheArtifactManager

    def made() -> Optional[bytes]:
        saved = manager.serialize()
        return None if saved is None else bytes(saved[0])
    with manager.with_fresh_cache():
        yield made


def load_artifacts(saved: bytes) -> None:
    """Loads saved artifacts: those of graphs and of the settings of kernels. Other artifacts are omitted, because they
    concern other frames as well. Seen in 2.15."""
    manager: Any = importlib.import_module("torch.compiler._cache").CacheArtifactManager
    found = manager.deserialize(saved) or {}
    manager.populate_caches({kind: found[kind] for kind in ("inductor", "autotune") if kind in found})


def inductor_folder() -> str:
    """Returns the folder in which inductor keeps what it builds. Seen in 2.15."""
    folder: str = importlib.import_module("torch._inductor.runtime.cache_dir_utils").cache_dir()
    return folder


def inductor_builds() -> int:
    """Returns how many graphs inductor has built, not counting those found in its cache on disk. Seen in 2.15."""
    counters: Any = importlib.import_module("torch._dynamo.utils").counters
    return int(counters["inductor"]["fxgraph_cache_miss"] + counters["inductor"]["fxgraph_cache_bypass"])
