"""watch(): compares the computations that the processes of an unchanged JAX program run together."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import sys
import threading
import time
import types
from typing import Any, Callable, Dict, List, NoReturn, Optional, Set, Tuple, Type

from .. import lines as posts
from .._library import lib
from ..errors import ERRORS, Error, Finding, said
from ..lines import NEEDS_NOBODY, Lines, Operation, pass_on
from ..meeting import Meeting, meeting_place
from ..reports import numbers_of, phrase, ranks_named
from . import _hooks
from .module_text import Module, module_of, with_places, words
from .modules import Modules
from .once import Once, Way
from .own_state import OwnState
from .partners import Partners, partners_of
from .standstill import FINISHED, GONE, LOST, MOVES, STOPPED, UNSEEN, Rank, Told, Verdict, verdict, why_failed
from .waits import host_name, is_running, is_stopped

_log = logging.getLogger("lockstep.jax")
POLICIES = ("refuse", "audit")
#: The key under which ranks post what they do.
_STATES = lib.fingerprint_of(b"jax states")
#: Seconds between two looks at this process and its peers.
_LOOK = 0.1
#: Deadlines for which a process waits for another's compile on a CPU, where no compile waits for other processes.
_MANY = 10
#: A look at a process of many threads takes long: after it, the thread rests this many times its processor time.
_REST = 50
#: Of this many looks, one is for peers that have failed while this process does not wait for them.
_EVERY = 5
#: Seconds for which a process that has failed stays, so that its peers report first.
_LAST_WORDS = 1.0
#: Most seconds for which process 0, with whose end JAX ends all others, waits for their reports.
_LAST_REPORTS = 4.0
#: Seconds within which the end of a killed process is seen after its connections have closed.
_PROOF_OF_END = 0.3
#: Seconds after which the post of a run that is over on another process must have arrived.
_LAG = 0.5
_SHOWN_DIGEST = 8
#: Ranks and the digest of what they run, in the report of a refusal.
_RUN = re.compile(rf"(?:\[|; )ranks? ([0-9,-]+): \S+ \[([0-9a-f]{{{_SHOWN_DIGEST}}})\]")
_watch: Optional["Watch"] = None


def watch(policy: str = "refuse", *, calls: bool = False, deadline: float = 60.0,
          report: Optional[Callable[[Finding], None]] = None, compile_once: bool = False) -> "Watch":
    """From now on compares each computation of several processes (jit, shard_map, pmap over devices of more than one
    process) with what the other processes run, before its first run. Call it on every process after
    jax.distributed.initialize() and before the first computation; it waits for all processes. The program needs no
    other change.

    No process waits for the comparison. Computations are compared in the order in which a process first runs them, on
    each set of processes: their names, their operations, the order of their devices and the program's compiler options
    must be equal. If they are not, the process that comes second raises GraphDivergence before it runs its own, and a
    process that waits in XLA for that computation ends with the same report and exit code 3. Computations without
    collectives, and those of one process, may differ.

    `policy`: "refuse", or "audit": differences are logged, nothing is raised and no process is ended. `calls`: every
    run is compared, not only first runs. JAX's fast path is then off for computations of several processes. `report`
    receives modules of equal names that differ when they are compiled (which by itself is legal); default: logging,
    "lockstep.jax", at INFO. `compile_once`: the first process of a computation compiles it, and the others load what it
    has compiled. They wait for it while it compiles, at most `deadline` seconds (ten times as long on a CPU), and
    compile the computation themselves if it has not begun within 3 s, or if its bytes cannot be loaded.

    A process that waits inside XLA ends with a report: exit code 3 if another process has failed, 5 if it was killed, 4
    if no process can go on (seen on CPU only), or if a process has not moved for `deadline` seconds. Watch.close() ends the watch; a
    program that ends normally closes it. Raises RuntimeError if jax.distributed is not initialised, a process is missing
    after five deadlines, or JAX lacks what is needed."""
    if policy not in POLICIES:
        raise ValueError(f"policy is {policy!r}; use one of " + ", ".join(map(repr, POLICIES)))
    if not deadline > 0:
        raise ValueError("deadline is in seconds, more than 0")
    setting = os.environ.get("LOCKSTEP_COORDINATION", "on")
    if setting not in ("on", "off"):
        raise ValueError(f"LOCKSTEP_COORDINATION is {setting!r}; use on or off")
    if _watch is not None:
        raise RuntimeError("lockstep.jax.watch() has been called; close() what it returned first")
    rank, ranks = _hooks.processes()
    if ranks == 0:
        raise RuntimeError("jax.distributed is not initialised; call jax.distributed.initialize() before lockstep.jax.watch()")
    if setting == "off":
        print("lockstep: LOCKSTEP_COORDINATION=off: nothing is watched; expect hangs and wrong numbers", file=sys.stderr)
    return Watch(rank, ranks if setting == "on" else 1, policy, calls, deadline, report, compile_once)


class _Compiled:
    """A compile, and what is run of it."""

    def __init__(self, module: Module, text: str, process_of: List[int], platform: str) -> None:
        """`process_of`: the process of each device, in the executable's order."""
        self.module, self.process_of, self.platform = module, process_of, platform
        self.members = tuple(sorted(set(process_of)))
        self.text: Optional[str] = text
        self.partners = Partners(False, False)

    def forget_text(self) -> None:
        self.text, self.module = None, self.module._replace(operations=())


class _Line:
    """What this process has run on a set of processes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.run: Set[str] = set()  # digests of computations that have been run
        self.last: Optional[int] = None


class _Unmatched:
    """A run that needs all its processes, and that some have not posted so far."""

    def __init__(self, line: int, number: int, compiled: _Compiled, place: str, results: Any) -> None:
        self.line, self.number, self.compiled, self.place = line, number, compiled, place
        #: A small result, to see when the run is over. It is kept no longer.
        self._result = min((each for each in results if hasattr(each, "is_ready")), key=lambda each: each.nbytes, default=None)
        self._over_since: Optional[float] = None

    @property
    def is_lost(self) -> bool:
        """True if the run's end cannot be seen: it has no result, or the program has given its memory away."""
        return self._over_since is None and (self._result is None or _hooks.is_deleted(self._result))

    def is_over_for(self, now: float) -> float:
        """Returns for how many seconds the run has been seen to be over; 0: it may still run."""
        if self._result is not None and _hooks.is_ready(self._result):
            self._result, self._over_since = None, now
        return 0.0 if self._over_since is None else now - self._over_since


class Watch:
    """The watch of a JAX program."""

    _starts = 0

    def __init__(self, rank: int, ranks: int, policy: str, calls: bool, deadline: float,
                 report: Optional[Callable[[Finding], None]], compile_once: bool = False) -> None:
        self._rank, self._ranks, self._policy, self._calls = rank, ranks, policy, calls
        self._deadline, self._report = deadline, report
        self._process = os.getpid()
        #: Number of computations of several processes that this process has compiled, and of those that have been
        #: compared.
        self.compiles = self.compared = 0
        self._told: List[str] = []  # reported differences
        self._over = threading.Event()
        if ranks < 2:
            return
        self._lines_of: Dict[Tuple[int, ...], _Line] = {}
        self._looking = threading.RLock()  # guards the members above and below
        self._unmatched: List[_Unmatched] = []
        self._failed = False
        self._cause: Optional[Error] = None  # lockstep's error, if this process has failed by one
        self._peers = [peer for peer in range(ranks) if peer != rank]
        self._stopped: Set[int] = set()      # peers that have been reported as stopped
        self._named: Set[int] = set()        # peers that have been reported as failed
        self._seen = Told()
        Watch._starts += 1
        store = _hooks.Store()
        meeting = Meeting(store, f"lockstep/jax/{Watch._starts}", list(range(ranks)), 5 * deadline, "lockstep.jax.watch()",
                          "process", "every process")

        def exchange(word: str) -> List[str]:
            return meeting.exchange(rank, word)
        self._same(exchange, "policy", policy)
        self._same(exchange, "calls", str(calls))
        self._same(exchange, "compile_once", str(compile_once))
        #: Process numbers of the ranks of this host; 0: another host.
        self._processes = [int(number) if host == host_name() else 0
                           for host, _, number in (word.rpartition(" ") for word in exchange(f"{host_name()} {self._process}"))]
        self.lines = Lines(rank, exchange, lambda: meeting_place(store), 5 * deadline, policy == "audit", self._explained,
                           self._tell, "lockstep.jax")
        self._modules = Modules(rank, self.lines, lib.fingerprint_of)
        self._state = OwnState(threading.get_ident(), threading.get_native_id())
        #: By rank: what an executable of a process depends on beyond its module.
        self._machines = exchange(_hooks.machine()) if compile_once else []
        self._once = Once(rank, self.lines, lib.fingerprint_of(b"jax executables"), store, f"lockstep/jax/{Watch._starts}/once/",
                          self._gives)
        self._compiles = _hooks.Compiles(self._before, self._after, self._runs, self._compares if calls else None,
                                         self._makes if compile_once else None)
        self._hook = sys.excepthook
        sys.excepthook = self._uncaught
        atexit.register(self._at_exit)
        _set(self)
        self._thread = threading.Thread(target=self._look, name="lockstep watch", daemon=True)
        self._thread.start()

    def _same(self, exchange: Callable[[str], List[str]], name: str, value: str) -> None:
        given = exchange(value)
        if len(set(given)) > 1:
            raise ValueError(f"processes call lockstep.jax.watch() with different values of {name}: " + "; ".join(
                f"{each!r} on process {given.index(each)}" for each in sorted(set(given))))

    def close(self) -> None:
        """Ends the watch. Raises GraphDivergence if a computation of this process was refused by another process after
        this process had run it."""
        if _watch is not self:
            return
        refused = self._remove()
        self._over.set()
        self._thread.join()
        self.lines.leave()
        if refused is not None:
            raise refused

    def summary(self) -> str:
        """Returns the reported differences and how much was compared."""
        return "\n".join([*self._told, f"{self.compiles} computations of several processes compiled, {self.compared} compared"])

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            return self.close()
        if _watch is self:
            self._failed = True
            self._over.set()
            self.lines.gone(said(error))
            self._compiles.remove()
            _set(None)

    def _remove(self) -> Optional[Error]:
        _set(None)
        atexit.unregister(self._at_exit)
        if sys.excepthook == self._uncaught:
            sys.excepthook = self._hook
        self._compiles.remove()
        return self.lines.finish()

    # Compiles and runs.

    def _before(self, module: Any, devices: Any, options: Any, platform: str) -> Optional[_Compiled]:
        if os.getpid() != self._process:
            return None
        process_of = [int(device.process_index) for device in devices.flat]
        if len(set(process_of)) < 2:
            return None
        text = _hooks.text_of(module)
        static: Dict[str, str] = {}
        with contextlib.suppress(Exception):  # only a fact for reports, from a repr() of the program
            static = words(_hooks.static_arguments())
        made = module_of(_hooks.name_of(module), text, _hooks.options_of(devices, options), static)
        return _Compiled(made, text, process_of, platform)

    def _after(self, compiled: _Compiled, executable: Any) -> None:
        if executable is None:
            return
        assert compiled.text is not None
        compiled.partners = partners_of(_hooks.optimised_text(executable), compiled.process_of)
        differs = ""
        with self._looking:
            self.compiles += 1
            self._state.platform = compiled.platform
            try:
                ordinal = self._modules.post(with_places(compiled.module, compiled.text), _hooks.settings())
                differs = self._modules.differs(compiled.module, ordinal, compiled.members)
            except Exception as error:  # peers know less, the program goes on
                _log.warning("%s cannot be posted: %s", compiled.module.name, said(error))
            compiled.forget_text()
        if differs:
            self._tell(differs)

    def _makes(self, compiled: _Compiled, way: Way) -> Any:
        if "callback" in (compiled.text or ""):  # into this process
            return way.build()
        with self._state.excused():
            return self._once.executable(compiled.module.name, compiled.module.digest, compiled.members,
                                         self._deadline * (_MANY if compiled.platform == "cpu" else 1), way)

    def _gives(self, peer: int) -> bool:
        """Returns whether this process can load what a peer compiles, and the peer can still compile."""
        return (self._machines[peer] == self._machines[self._rank] and not self._over.is_set()
                and self._state_of(peer, time.monotonic()).what not in (GONE, LOST, FINISHED, UNSEEN, STOPPED))

    @property
    def loaded(self) -> int:
        """Number of computations that this process has loaded, because another has compiled them."""
        return self._once.loaded if self._ranks > 1 else 0

    def _compares(self, compiled: _Compiled) -> bool:
        return compiled.partners.communicates and not self._over.is_set()

    def _runs(self, compiled: _Compiled) -> Callable[[Any], None]:
        if not self._compares(compiled) or os.getpid() != self._process:
            return _nothing
        with self._looking:
            line = self._line(compiled.members)
            digest = compiled.module.digest
            if digest in line.run and not self._calls:
                return _nothing
            line.run.add(digest)
            place = _hooks.user_place(sys._getframe(1))
            number = self.lines.issue(line.number, Operation(f"{compiled.module.name} [{digest[:_SHOWN_DIGEST]}]", place=place))
            self.compared += 1
            if number is None:
                return _nothing
            line.last = number

        def issued(results: Any) -> None:
            lib.lines_issued(self.lines._handle, line.number)
            if compiled.partners.needs_all:
                with self._looking:
                    self._unmatched.append(_Unmatched(line.number, number, compiled, place, results))
        return issued

    def _line(self, members: Tuple[int, ...]) -> _Line:
        found = self._lines_of.get(members)
        if found is None:
            name = f"the computations of {phrase(list(members), 'process', 'processes')}"
            found = self._lines_of[members] = _Line(self.lines.made(f"jax {Watch._starts} {members}", list(members), name))
        return found

    # What is known of differences.

    def _explained(self, finding: Finding) -> str:
        """Returns how the computations of two ranks differ which a refusal names, or what the named ranks do."""
        try:
            if finding.code == "GRAPH_DIVERGENCE":
                runs = [(numbers_of(ranks)[0], digest) for ranks, digest in _RUN.findall(finding.text)]
                if len(runs) > 1:
                    (a, digest_a), (b, digest_b) = runs[0], next((run for run in runs if run[1] != runs[0][1]), runs[1])
                    with self._looking:
                        return self._modules.why((a, digest_a), (b, digest_b))
                return ""
            states = self._states(time.monotonic())
            return "; ".join(f"rank {rank} {states[rank].text()}" for rank in ranks_named(finding.text) if rank in states)
        except Exception as error:  # an explanation is no reason to fail otherwise
            _log.warning("the difference cannot be explained: %s", said(error))
            return ""

    def _tell(self, text: str) -> None:
        self._told.append(text)
        pass_on(Finding("GRAPH_DIVERGENCE", text, "", (), text), self._report, _log)

    # Waits.

    def _look(self) -> None:
        told: Tuple[str, str, float] = (MOVES, "", 0.0)
        failures: Set[str] = set()
        looks, pause = 0, _LOOK
        while not self._over.wait(pause):
            if os.getpid() != self._process:
                return
            looks += 1
            began = time.thread_time()
            try:
                now = time.monotonic()
                if looks % _EVERY == 0:
                    self._name_failed(now)
                own = self._state.look(now)
                if own.what == MOVES:
                    self.lines.alive(self._deadline)
                begun = 0.0 if own.what == MOVES else own.since  # a new wait at the same place is posted anew
                if (own.what, own.place, begun) != told and _watch is self:
                    told = (own.what, own.place, begun)
                    self.lines.tell(_STATES, Operation(own.what, place=own.place, needs=NEEDS_NOBODY))
                self._match(now)
                self._judge(own, now)
            except Exception as error:  # peers know less, the program goes on
                if said(error) not in failures:
                    failures.add(said(error))
                    _log.warning("the watch cannot look at this process or its peers: %s", said(error))
            pause = max(_LOOK, _REST * (time.thread_time() - began))

    def _name_failed(self, now: float) -> None:
        """Logs peers that have failed, once each: this process may yet have much to do before it needs them."""
        for peer, state in self._states(now).items():
            if state.what in (GONE, LOST) and peer not in self._named:
                self._named.add(peer)
                _log.warning("rank %d %s", peer, state.text())

    def _match(self, now: float) -> None:
        """Ends this process if one of its runs is over that another process has never begun: its collectives were paired
        with those of another computation."""
        with self._looking:
            self._unmatched = [run for run in self._unmatched
                               if not run.is_lost and lib.lines_arrived(self.lines._handle, run.line, run.number) == 0]
            runs = list(self._unmatched)
        for run in runs:
            if run.is_over_for(now) > _LAG:
                with self._looking:
                    self._unmatched.remove(run)
                self._end(self._unmatched_error(run))

    def _unmatched_error(self, run: _Unmatched) -> Error:
        module = run.compiled.module
        text = f"rank {self._rank} has run {module.name} at {run.place} to its end, and not all its other processes have begun it"
        with self._looking:
            who = self._modules.never_compiled(module, run.compiled.members)
        text += who and f": {who}"
        return ERRORS["GRAPH_DIVERGENCE"](Finding("GRAPH_DIVERGENCE", text, "", (), f"GRAPH_DIVERGENCE: {text}"))

    def _states(self, now: float) -> Dict[int, Rank]:
        """Returns what is known of each peer."""
        return {peer: self._state_of(peer, now) for peer in self._peers}

    def _state_of(self, peer: int, now: float) -> Rank:
        code, state, text = lib.lines_peer(self.lines._handle, peer)
        ended = {posts.FINISHED: FINISHED, posts.GONE: GONE, posts.LOST: LOST, posts.UNSEEN: UNSEEN}.get(state)
        if code != 0 or ended is not None:
            return self._seen.sees(peer, ended or UNSEEN, text, now)
        if self._processes[peer] and is_stopped(self._processes[peer]):
            return self._seen.sees(peer, STOPPED, "", now)
        number = self.lines.times_told(_STATES, peer)
        post = self.lines.told(_STATES, peer, number)
        return self._seen.sees(peer, MOVES if post is None else post.kind, "" if post is None else post.place, now, number)

    def _judge(self, own: Rank, now: float) -> None:
        """Ends this process if it waits in XLA for what cannot come."""
        if not own.is_in_xla:
            return
        states = self._states(now)
        for peer, state in states.items():
            if state.what == STOPPED and peer not in self._stopped:
                self._stopped.add(peer)
                _log.warning("rank %d (process %d) is stopped by a signal or a debugger, and rank %d waits in XLA at %s",
                             peer, self._processes[peer], self._rank, own.place)
        ends = _watch is not self or self._state.shuts_down()
        with self._looking:
            lines = [] if ends else [line for line in self._lines_of.values() if line.last is not None]
            unmatched = [run for run in self._unmatched if run.is_over_for(now) > 0]
        for line in lines:
            if any(run.line == line.number for run in unmatched):
                continue  # _match() knows more of it
            if lib.lines_in_flight(self.lines._handle, line.number, line.last) != 0:
                self._end(self.lines.error())
        found = verdict(self._rank, {**states, self._rank: own}, now, self._deadline, ends)
        if found is not None:
            self._end(_error_of(found))

    def _end(self, error: Error) -> None:
        if self._policy == "audit":
            self.lines.log_once(str(error), str(error))
        else:
            self.lines.end(error, self._last_words)

    def _last_words(self) -> None:
        """On the process whose end ends jax.distributed on all others, waits until these have ended by their reports."""
        until = time.monotonic() + _LAST_REPORTS
        while self._rank == 0 and time.monotonic() < until and not all(map(self._has_ended, self._peers)):
            time.sleep(_LOOK / 2)

    def _has_ended(self, peer: int) -> bool:
        number = self._processes[peer]
        return (number != 0 and not is_running(number)) or self._state_of(peer, time.monotonic()).what in (LOST, UNSEEN)

    # The end of the program.

    def _uncaught(self, kind: Type[BaseException], error: BaseException, trace: Optional[types.TracebackType]) -> None:
        if os.getpid() != self._process:
            self._hook(kind, error, trace)
            return
        self._failed = True
        self._over.set()
        if isinstance(error, Error):
            self._cause = error
        elif issubclass(kind, Exception):
            self._cause = self._lost_peer()
        self.lines.gone(said(self._cause or error))
        self._hook(kind, error, trace)
        if self._cause not in (None, error):
            print(f"lockstep: {self._cause}", file=sys.stderr, flush=True)

    def _lost_peer(self) -> Optional[Error]:
        """Returns the error that names a peer which has failed: then an exception of XLA here may be that of a closed
        connection. The system may need some time to end a process."""
        until = time.monotonic() + _PROOF_OF_END
        while True:
            found = why_failed(self._states(time.monotonic()))
            if found is not None or time.monotonic() > until:
                return None if found is None else _error_of(found)
            time.sleep(_LOOK / 4)

    def _at_exit(self) -> None:
        if os.getpid() != self._process:
            return
        if self._failed and self._policy == "audit":
            return
        if self._failed:
            threading.Thread(target=self._leave, args=(threading.get_ident(),), name="lockstep end", daemon=True).start()
            time.sleep(_LAST_WORDS)
            atexit.unregister(self._at_exit)
            with contextlib.suppress(BaseException):  # which has been shown
                atexit._run_exitfuncs()
            self._out()
        until = time.monotonic() + 2 * _LAG
        while self._unmatched and time.monotonic() < until:  # the end of a run is compared, too
            time.sleep(_LOOK / 4)
        try:
            refused = self._remove()
        except Error as error:
            print(f"lockstep: {error}", file=sys.stderr)
            return
        if refused is not None:
            self.lines.end(refused, self._last_words)

    def _leave(self, thread: int) -> None:
        """Ends a process that has failed once its exit handlers have reached that of JAX, in which jax.distributed waits
        for processes that cannot come."""
        since: Optional[float] = None
        while since is None or time.monotonic() - since < _LAST_WORDS:
            time.sleep(_LOOK)
            if not _hooks.shuts_down(sys._current_frames().get(thread)):
                since = None
            elif since is None:
                since = time.monotonic()
        self._out()

    def _out(self) -> NoReturn:
        """Ends this process with the exit code of its failure, after its exit handlers: Python's own would be 1."""
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if self._cause is None else self._cause.exit_code)


def _error_of(found: Verdict) -> Error:
    table = "; ".join(f"rank {rank}: {text}" for rank, text in found.rows)
    return ERRORS[found.code](Finding(found.code, found.text, "", found.rows,
                                      f"{found.code}: {found.text}" + (f" [{table}]" if table else "")))


def _nothing(_: Any) -> None:
    """A run that is not compared has been issued."""


def _set(current: Optional[Watch]) -> None:
    global _watch
    _watch = current
