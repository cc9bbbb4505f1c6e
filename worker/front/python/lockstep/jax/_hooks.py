"""Uses of JAX beyond its public interface. Seen in JAX 0.8.1 and 0.10.2."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
import sysconfig
import threading
import types
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import jax
import jaxlib
from jax._src import compiler, distributed, pjit, traceback_util
from jax._src.interpreters import pxla

from .once import Way

#: Folders of JAX and lockstep.
_INSIDE = tuple(os.path.dirname(str(path)) + os.sep for path in (jax.__file__, jaxlib.__file__, os.path.dirname(__file__)))
#: Folders of Python's own modules and of installed packages.
_INSTALLED = tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "purelib", "platlib")}
                   | {sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})


def processes() -> Tuple[int, int]:
    """Returns the number of this process, and how many there are; 0: jax.distributed is not initialised."""
    state = distributed.global_state
    return (int(state.process_id), int(state.num_processes)) if state.client is not None else (0, 0)


class Store:
    """The key-value store of jax.distributed."""

    def __init__(self) -> None:
        self._client: Any = distributed.global_state.client
        self.host = str(distributed.global_state.coordinator_address or "").rpartition(":")[0].strip("[]")

    def put(self, key: str, text: str) -> None:
        self._client.key_value_set(key, text)

    def take(self, key: str, seconds: float) -> str:
        text: str = self._client.blocking_key_value_get(key, max(int(seconds * 1000), 1))
        return text

    def put_bytes(self, key: str, data: bytes) -> None:
        self._client.key_value_set_bytes(key, data)

    def take_bytes(self, key: str, seconds: float) -> bytes:
        data: bytes = self._client.blocking_key_value_get_bytes(key, max(int(seconds * 1000), 1))
        return data


def machine() -> str:
    """Returns what the executables of this process depend on beyond their modules: the processor's features, the kind of
    its devices, the version of jaxlib, XLA's flags."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as text:
        features = next((line for line in text if line.startswith(("flags", "Features"))), "")
        words = (features, str(jax.local_devices()[0].device_kind), str(jaxlib.__version__), os.environ.get("XLA_FLAGS", ""))
        return hashlib.sha256("\0".join(words).encode()).hexdigest()
    return str(os.getpid())  # as no other


def settings() -> Dict[str, str]:
    """Returns the values of jax.config that are numbers, texts or flags, and XLA_FLAGS."""
    found = {name: str(value) for name, value in jax.config.values.items() if value is None or isinstance(value, (bool, int, float, str))}
    return {**found, "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")}


def text_of(computation: Any) -> str:
    """Returns a module with its locations as text."""
    text: str = computation.operation.get_asm(enable_debug_info=True, assume_verified=True)  # JAX has verified it
    return text


def name_of(computation: Any) -> str:
    """Returns the name of a module: "jit_step"."""
    return str(computation.operation.attributes["sym_name"]).strip('"')


def options_of(devices: Any, options: Any) -> Dict[str, str]:
    """Returns what else must be equal on all processes: the devices in their order, and compiler options that the
    program has given, without files."""
    found = {"the order of devices": " ".join(str(device.id) for device in devices.flat),
             "the number of partitions": f"{options.num_replicas} x {options.num_partitions}"}
    for key, value in getattr(options, "env_option_overrides", None) or ():
        if not any(word in key for word in ("dump", "dir", "path", "file", "cache")):
            found[f"the compiler option {key}"] = str(value)
    return found


def optimised_text(executable: Any) -> str:
    """Returns the modules that XLA has made for an executable, as text."""
    return "\n".join(module.to_string() for module in executable.hlo_modules())


def _letters(name: str) -> str:
    """Returns what the name of a module, "jit__lambda", and that of its executable, "jit(<lambda>)", have in common."""
    return "".join(filter(str.isalnum, name))


def is_ready(array: Any) -> bool:
    """Returns whether an array has been computed. False if its memory has been given away."""
    return not is_deleted(array) and bool(array.is_ready())


def is_deleted(array: Any) -> bool:
    return bool(array.is_deleted())


def shuts_down(frame: Optional[types.FrameType]) -> bool:
    """Returns whether a thread with this innermost frame is in the end of jax.distributed."""
    while frame is not None:
        if frame.f_code.co_filename == distributed.__file__ and frame.f_code.co_name == "shutdown":
            return True
        frame = frame.f_back
    return False


def static_arguments() -> Mapping[str, Any]:
    """Returns the static arguments of the call of a jitted function that is being compiled on this thread."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "cache_miss" and "jit_info" in frame.f_locals:
            with contextlib.suppress(Exception):  # only a fact for reports
                return _static(frame.f_locals["jit_info"], frame.f_locals["args"], frame.f_locals["kwargs"])
        frame = frame.f_back
    return {}


def _static(info: Any, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    signature: inspect.Signature = info.fun_signature
    given = signature.bind_partial(*args, **kwargs).arguments
    names = set(info.static_argnames) | {name for at, name in enumerate(signature.parameters) if at in info.static_argnums}
    return {name: value for name, value in given.items() if name in names}


def user_place(frame: Optional[types.FrameType]) -> str:
    """Returns the line of the innermost function of the program: "train.py:41"."""
    outside = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*_INSIDE, "<")):
            if not file.startswith(_INSTALLED):
                return f"{os.path.basename(file)}:{frame.f_lineno}"
            outside = outside or f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return outside or ""


def is_inside(frame: Optional[types.FrameType]) -> bool:
    """Returns whether a thread with this innermost frame is within a call of JAX, or in a function that XLA called."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_INSIDE[0]):
            return True
        frame = frame.f_back
    return False


def is_of_python(frame: types.FrameType) -> bool:
    """Returns whether a frame is of one of Python's own modules, such as threading or queue."""
    file = frame.f_code.co_filename
    return file.startswith(_INSTALLED) and "-packages" not in file


def is_native(file: str) -> bool:
    """Returns whether a file is a library of jaxlib or of a plug-in of JAX."""
    return file.startswith(_INSIDE[1]) or any(word in file for word in ("libjax", "jax_plugins", "libtpu"))


class Compiles:
    """Sees each module that is compiled, each run that is not on JAX's fast path, and all runs of executables that
    `slow` names."""

    def __init__(self, before: Callable[[Any, Any, Any, str], Any], after: Callable[[Any, Any], None],
                 runs: Callable[[Any], Callable[[Any], None]], slow: Optional[Callable[[Any], bool]],
                 makes: Optional[Callable[[Any, Way], Any]]) -> None:
        """`before`(module, devices, options, platform): called before each compile; what it returns is the compile's
        record. `after`(record, executable): called after it, with None in place of the executable if it failed.
        `runs`(record): called before each run of the record's executable; what it returns is called when the run has
        been issued, with the run's results. `slow`(record): returns whether all runs of the executable must be seen;
        None: of no executable. `makes`(record, way): makes the executable, if its bytes can be given to another process;
        None: JAX makes it."""
        with contextlib.suppress(Exception):  # only for shorter tracebacks
            traceback_util.register_exclusion(_INSIDE[2])
        missing = self._missing()
        if missing:
            raise RuntimeError(f"lockstep.jax knows JAX 0.8.1 to 0.10.2; JAX {jax.__version__} has no {missing}: install one "
                               "of these versions, or run without lockstep.jax.watch()")
        self._records: Dict[int, Any] = {}  # by the executable's address
        self._of: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()
        self._looking = threading.Lock()  # guards both
        self._before, self._after, self._runs, self._slow, self._makes = before, after, runs, slow, makes
        self._patches: List[Tuple[Any, str, Any]] = []
        self._patch(compiler, "compile_or_get_cached", self._compile)
        self._patch(pxla.ExecuteReplicated, "__call__", self._run)
        if slow is not None:
            self._patch(pjit, "_get_fastpath_data", self._fast_path)
            self._patch(pxla.MeshExecutable, "create_cpp_call", self._fast_call)

    @staticmethod
    def _missing() -> str:
        wanted = ((compiler, "compile_or_get_cached"), (pxla, "ExecuteReplicated"), (pjit, "_get_fastpath_data"),
                  (pxla, "MeshExecutable"), (getattr(pxla, "MeshExecutable", pxla), "create_cpp_call"))
        for owner, name in wanted:
            if not hasattr(owner, name):
                return f"{owner.__name__}.{name}"
        parameters = list(inspect.signature(compiler.compile_or_get_cached).parameters)[:4]
        if parameters != ["backend", "computation", "devices", "compile_options"]:
            return "compile_or_get_cached(backend, computation, devices, compile_options)"
        return "" if "xla_executable" in getattr(pxla.ExecuteReplicated, "__slots__", ()) else "ExecuteReplicated.xla_executable"

    def _patch(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        self._patches.append((owner, name, original))
        setattr(owner, name, functools.wraps(original)(wrap(original)))

    def remove(self) -> None:
        for owner, name, original in reversed(self._patches):
            setattr(owner, name, original)
        self._patches.clear()

    def _compile(self, original: Any) -> Any:
        def compile_or_get_cached(backend: Any, computation: Any, devices: Any, compile_options: Any, *args: Any, **kwargs: Any) -> Any:
            record = self._before(computation, devices, compile_options, str(backend.platform))
            executable = None
            try:
                def build() -> Any:
                    return original(backend, computation, devices, compile_options, *args, **kwargs)
                if record is None or self._makes is None or len(args) < 2 or args[0]:  # args[0]: callbacks into this process
                    executable = build()
                else:
                    executable = self._makes(record, Way(
                        build, backend.serialize_executable,
                        lambda data: backend.deserialize_executable(data, args[1], compile_options)))
            finally:
                if record is not None:
                    self._after(record, executable)
            with self._looking:
                self._records[id(executable)] = record
            return executable
        return compile_or_get_cached

    def _record(self, execute: Any) -> Any:
        with self._looking:
            if execute not in self._of:
                record = self._records.get(id(execute.xla_executable))
                # An executable that JAX has not compiled here may have the address of one that is gone.
                self._of[execute] = record if record is not None and _letters(record.module.name) == _letters(execute.name) else None
            return self._of[execute]

    def _run(self, original: Any) -> Any:
        def run(execute: Any, *args: Any) -> Any:
            record = self._record(execute)
            if record is None:
                return original(execute, *args)
            issued = self._runs(record)
            results = original(execute, *args)
            issued(results)
            return results
        return run

    def _is_slow(self, executable: Any) -> bool:
        call = getattr(executable, "unsafe_call", None)
        record = self._record(call) if isinstance(call, pxla.ExecuteReplicated) else None
        return record is not None and self._slow is not None and self._slow(record)

    def _fast_path(self, original: Any) -> Any:
        def get_fastpath_data(executable: Any, *args: Any, **kwargs: Any) -> Any:
            return None if self._is_slow(executable) else original(executable, *args, **kwargs)
        return get_fastpath_data

    def _fast_call(self, original: Any) -> Any:
        def create_cpp_call(executable: Any, *args: Any, **kwargs: Any) -> Any:
            return None if self._is_slow(executable) else original(executable, *args, **kwargs)
        return create_cpp_call
