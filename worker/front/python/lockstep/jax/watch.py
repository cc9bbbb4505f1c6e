"""watch(): compares the computations that the processes of an unchanged JAX program run together."""

from __future__ import annotations

import ast
import atexit
import logging
import os
import re
import sys
import threading
import time
import traceback
import types
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Set, Tuple, Type

from .. import lines as posts
from .._library import lib
from ..errors import ERRORS, Error, Finding, said
from ..lines import NEEDS_NOBODY, Lines, Operation, Post
from ..meeting import Meeting, meeting_place
from ..reports import numbers_of, phrase, ranks_named
from . import _hooks
from .module_text import Module, difference, module_of, unpacked, with_places, words
from .own_state import OwnState
from .partners import Partners, partners_of
from .standstill import FINISHED, GONE, LOST, MOVES, STOPPED, UNSEEN, Rank, Told, Verdict, verdict, why_failed
from .waits import host_name, is_running, is_stopped

_log = logging.getLogger("lockstep.jax")
POLICIES = ("refuse", "audit")
#: Keys under which ranks post their modules, their settings and what they do.
_MODULES, _SETTINGS, _STATES = (lib.fingerprint_of(word) for word in (b"jax modules", b"jax settings", b"jax states"))
#: Most bytes of packed modules that a rank posts. Beyond it, only digests are known.
_MOST_POSTED = 4 << 20
#: Seconds between two looks at this process and its peers.
_LOOK = 0.1
#: Seconds for which a process that has failed stays, so that its peers report first.
_LAST_WORDS = 2.0
#: Seconds within which the end of a killed process is seen after its connections have closed.
_PROOF_OF_END = 0.3
#: Seconds after which the post of a run that is over on another process must have arrived.
_LAG = 0.5
_SHOWN_DIGEST = 8
#: Ranks and the digest of what they run, in the report of a refusal.
_RUN = re.compile(rf"(?:\[|; )ranks? ([0-9,-]+): \S+ \[([0-9a-f]{{{_SHOWN_DIGEST}}})\]")
_watch: Optional["Watch"] = None


def watch(policy: str = "refuse", *, calls: bool = False, deadline: float = 60.0,
          report: Optional[Callable[[Finding], None]] = None) -> "Watch":
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
    "lockstep.jax", at INFO.

    A process that waits inside XLA ends with a report: exit code 5 if another process has failed or has been killed, 4
    if no process can go on (CPU), or if a process has not moved for `deadline` seconds. Watch.close() ends the watch; a
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
    return Watch(rank, ranks if setting == "on" else 1, policy, calls, deadline, report)


class _Compiled:
    """A compile, and what is run of it."""

    def __init__(self, module: Module, text: str, process_of: List[int], platform: str) -> None:
        """`process_of`: the process of each device, in the executable's order."""
        self.module, self.process_of, self.platform = module, process_of, platform
        self.members = tuple(sorted(set(process_of)))
        self.text: Optional[str] = text
        self.partners = Partners(False, False)


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

    def is_over_for(self, now: float) -> float:
        """Returns for how many seconds the run has been seen to be over; 0: it may still run."""
        if self._result is not None and _hooks.is_ready(self._result):
            self._result, self._over_since = None, now
        return 0.0 if self._over_since is None else now - self._over_since


class Watch:
    """The watch of a JAX program."""

    _starts = 0

    def __init__(self, rank: int, ranks: int, policy: str, calls: bool, deadline: float,
                 report: Optional[Callable[[Finding], None]]) -> None:
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
        self._room = _MOST_POSTED
        self._settings: Dict[str, str] = {}
        self._ordinals: Dict[str, int] = {}  # compiles by name
        self._running = threading.local()    # .module: what this thread is about to run
        self._failed = False
        self._cause: Optional[Error] = None  # lockstep's error, if this process has failed by one
        self._peers = [peer for peer in range(ranks) if peer != rank]
        self._stopped: Set[int] = set()      # peers that have been reported as stopped
        self._seen = Told()
        Watch._starts += 1
        store = _hooks.Store()
        meeting = Meeting(store, f"lockstep/jax/{Watch._starts}", list(range(ranks)), 5 * deadline, "lockstep.jax.watch()",
                          "process", "every process")
        rounds = iter(range(1 << 30))

        def exchange(word: str) -> List[str]:
            at = next(rounds)
            meeting.tell(f"{at}/{rank}", word)
            return [meeting.hear(f"{at}/{other}", other) for other in range(ranks)]
        self._same(exchange, "policy", policy)
        self._same(exchange, "calls", str(calls))
        #: Process numbers of the ranks of this host; 0: another host.
        self._processes = [int(number) if host == host_name() else 0
                           for host, _, number in (word.rpartition(" ") for word in exchange(f"{host_name()} {self._process}"))]
        self.lines = Lines(rank, exchange, lambda: meeting_place(store), 5 * deadline, policy == "audit", self._explained,
                           self._tell, "lockstep.jax")
        self._state = OwnState(threading.get_ident(), threading.get_native_id())
        self._compiles = _hooks.Compiles(self._before, self._after, self._runs, self._compares if calls else None)
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
        if self._ranks > 1:
            self.lines.gone(said(error))

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
        made = module_of(_hooks.name_of(module), text, _hooks.options_of(devices, options), words(_hooks.static_arguments()))
        return _Compiled(made, text, process_of, platform)

    def _after(self, compiled: _Compiled, executable: Any) -> None:
        if executable is None:
            return
        assert compiled.text is not None
        compiled.partners = partners_of(_hooks.optimised_text(executable), compiled.process_of, self._rank)
        with self._looking:
            self.compiles += 1
            self._state.platform = compiled.platform
            name = compiled.module.name
            ordinal = self._ordinals[name] = self._ordinals.get(name, 0) + 1
            packed = with_places(compiled.module, compiled.text).packed()
            compiled.text = None
            settings = _hooks.settings()
            if settings != self._settings:
                self._settings = settings
                self.lines.tell(_SETTINGS, Operation("settings", place=repr(sorted(settings.items())), needs=NEEDS_NOBODY))
            self._room -= len(packed)
            self.lines.tell(_MODULES, Operation(name, compiled.module.digest, "", packed if self._room > 0 else "", needs=NEEDS_NOBODY,
                                                to=(ordinal,)))
            differs = self._differs(compiled.module, ordinal, compiled.members)
        if differs:
            self._tell(differs)

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
            self._running.module = compiled.module
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
            name = f"the computations of {phrase(list(members), 'process')}".replace("processs", "processes")
            found = self._lines_of[members] = _Line(self.lines.made(f"jax {Watch._starts} {members}", list(members), name))
        return found

    # What is known of differences.

    def _posted(self, rank: int) -> List[Post]:
        """Returns the modules that a rank has posted, the latest first."""
        numbers = range(self.lines.times_told(_MODULES, rank), 0, -1)
        return [post for post in (self.lines.told(_MODULES, rank, number) for number in numbers) if post is not None]

    def _module(self, rank: int, digest: str) -> Optional[Module]:
        """Returns the module of a rank whose digest begins with `digest`; None: it is not kept."""
        return next((unpacked(post.place) for post in self._posted(rank) if post.dtype.startswith(digest)), None)

    def _differs(self, mine: Module, ordinal: int, members: Sequence[int]) -> str:
        """Returns how a peer's module of the same name and number differs from this rank's; "": none differs so far."""
        for peer in members:
            post = None if peer == self._rank else next(
                (post for post in self._posted(peer) if (post.kind, tuple(post.numbers)) == (mine.name, (ordinal,))), None)
            if post is not None and post.dtype != mine.digest:
                return (f"compile {ordinal} of {mine.name} differs between rank {self._rank} and rank {peer}"
                        + self._why(self._rank, mine.digest, peer, post.dtype))
        return ""

    def _why(self, rank_a: int, digest_a: str, rank_b: int, digest_b: str) -> str:
        a, b = self._module(rank_a, digest_a), self._module(rank_b, digest_b)
        parts = self._settings_differ(rank_a, rank_b)
        if a is not None and b is not None:
            parts.append(difference(a, b, rank_a, rank_b))
        text = "; ".join(part for part in parts if part)
        return f": {text}" if text else ""

    def _settings_differ(self, rank_a: int, rank_b: int) -> List[str]:
        found = []
        for rank in (rank_a, rank_b):
            post = self.lines.told(_SETTINGS, rank, self.lines.times_told(_SETTINGS, rank))
            if post is None:
                return []
            found.append(dict(_pairs(post.place)))
        a, b = found
        return [f"{name} is {a.get(name, 'not set')} on rank {rank_a} and {b.get(name, 'not set')} on rank {rank_b}"
                for name in sorted({*a, *b}) if a.get(name) != b.get(name) and not _may_differ(name)]

    def _explained(self, finding: Finding) -> str:
        """Returns how the computations of two ranks differ which a refusal names, or what the named ranks do."""
        try:
            if finding.code == "GRAPH_DIVERGENCE":
                runs = [(numbers_of(ranks)[0], digest) for ranks, digest in _RUN.findall(finding.text)]
                if len(runs) > 1:
                    (a, digest_a), (b, digest_b) = runs[0], next((run for run in runs if run[1] != runs[0][1]), runs[1])
                    return self._why(a, digest_a, b, digest_b)[2:]
                return ""
            states = self._states(time.monotonic())
            return "; ".join(f"rank {rank} {states[rank].text()}" for rank in ranks_named(finding.text) if rank in states)
        except Exception as error:  # an explanation is no reason to fail otherwise
            _log.warning("the difference cannot be explained: %s", said(error))
            return ""

    def _tell(self, text: str) -> None:
        self._told.append(text)
        finding = Finding("GRAPH_DIVERGENCE", text, "", (), text)
        if self._report is None:
            _log.info("%s", text)
            return
        try:
            self._report(finding)
        except Exception:  # the program goes on
            traceback.print_exc()

    # Waits.

    def _look(self) -> None:
        told: Tuple[str, str, float] = (MOVES, "", 0.0)
        failures: Set[str] = set()
        while not self._over.wait(_LOOK):
            if os.getpid() != self._process:
                return
            try:
                now = time.monotonic()
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

    def _match(self, now: float) -> None:
        """Ends this process if one of its runs is over that another process has never begun: its collectives were paired
        with those of another computation."""
        with self._looking:
            self._unmatched = [run for run in self._unmatched if lib.lines_arrived(self.lines._handle, run.line, run.number) == 0]
            runs = list(self._unmatched)
        for run in runs:
            if run.is_over_for(now) > _LAG:
                with self._looking:
                    self._unmatched.remove(run)
                self._end(self._unmatched_error(run))

    def _unmatched_error(self, run: _Unmatched) -> Error:
        module = run.compiled.module
        text = f"rank {self._rank} has run {module.name} at {run.place} to its end, and not all its other processes have begun it"
        for peer in run.compiled.members:
            compiled = [] if peer == self._rank else self._posted(peer)
            if compiled and all(post.dtype != module.digest for post in compiled):
                text += f": rank {peer} has not compiled it, so its collectives were those of another computation"
                other = next((post for post in compiled if post.kind == module.name), None)
                why = "" if other is None else self._why(self._rank, module.digest, peer, other.dtype)
                text += f" ({why[2:]})" if why else ""
                break
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
        with self._looking:
            lines = [line for line in self._lines_of.values() if line.last is not None]
            unmatched = [run for run in self._unmatched if run.is_over_for(now) > 0]
        for line in lines:
            if any(run.line == line.number for run in unmatched):
                continue  # _match() knows more of it
            if lib.lines_in_flight(self.lines._handle, line.number, line.last) != 0:
                self._end(self.lines.error())
        found = verdict(self._rank, {**states, self._rank: own}, now, self._deadline)
        if found is not None:
            self._end(_error_of(found))

    def _end(self, error: Error) -> None:
        if self._policy == "audit":
            self._over.set()
            _log.warning("%s", error)
            return
        self.lines.end(error, self._last_words)

    def _last_words(self) -> None:
        """On the process whose end ends jax.distributed on all others, waits until these have ended by their reports."""
        until = time.monotonic() + 2 * _LAST_WORDS
        while self._rank == 0 and time.monotonic() < until:
            if all(state.what in (FINISHED, LOST, UNSEEN) or not is_running(self._processes[peer])
                   for peer, state in self._states(time.monotonic()).items()):
                return
            time.sleep(_LOOK / 2)

    # The end of the program.

    def _uncaught(self, kind: Type[BaseException], error: BaseException, trace: Optional[types.TracebackType]) -> None:
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
        if self._failed:
            # jax.distributed would wait for the other processes, which cannot come.
            threading.Thread(target=self._leave, name="lockstep end", daemon=True).start()
            time.sleep(_LAST_WORDS / 2)
            return
        while self._unmatched:
            time.sleep(_LOOK)
        try:
            refused = self._remove()
        except Error as error:
            print(f"lockstep: {error}", file=sys.stderr)
            return
        if refused is not None:
            self.lines.end(refused, self._last_words)

    def _leave(self) -> NoReturn:
        """Ends a process that has failed, after its other exit handlers have had some time."""
        time.sleep(_LAST_WORDS)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if self._cause is None else self._cause.exit_code)


def _error_of(found: Verdict) -> Error:
    table = "; ".join(f"rank {rank}: {text}" for rank, text in found.rows)
    return ERRORS[found.code](Finding(found.code, found.text, "", found.rows,
                                      f"{found.code}: {found.text}" + (f" [{table}]" if table else "")))


def _nothing(_: Any) -> None:
    """A run that is not compared has been issued."""


def _pairs(text: str) -> List[Tuple[str, str]]:
    pairs: List[Tuple[str, str]] = ast.literal_eval(text)
    return pairs


def _may_differ(name: str) -> bool:
    """Returns whether a setting may differ between processes without a difference in what they compute."""
    return any(word in name for word in ("dir", "path", "log", "dump", "visible_devices", "file", "profil", "port"))


def _set(current: Optional[Watch]) -> None:
    global _watch
    _watch = current
