"""Versions of functions on which the ranks of a group agree."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ._library import NUMBERS, lib, native
from .call_site import CallSite
from .decision import Decision
from .errors import Error, Finding, check, finding_of, said
from .group import Group
from .observation import Declared, Observation, free_declared


class Agreed(NamedTuple):
    """The version of a function to run now, as the ranks have agreed."""

    entry: Optional[int]          # the version; None: no version, because the limit is reached
    is_new: bool                  # the version was built in this call
    decision: Optional[Decision]  # the version's decision; without a version, the decision of a call with fields


_CONSISTENCY = {"same_graph": 0, "same_collectives": 1, "shared_sizes": 2}
#: Builds version `entry` for a decision; returns text or bytes that identify the program, or None to compare
#: decisions only. Passes to decision.guard() the conditions on which the program relies beyond the decision. Its
#: exception becomes the error of all ranks.
Build = Callable[[int, Decision], Any]


def program_bytes(program: Any) -> bytes:
    return program if isinstance(program, bytes) else str(program).encode()


#: The result of lockstep_agree_tested(): code, entry, whether the entry is new, address of its decision, and whether
#: the ranks have yet to test the conditions that the entry's program relies on beyond its inputs.
Said = Tuple[int, int, int, int, int]
#: The callable that build() in native/module.cpp calls.
BuildC = Callable[[int, int, int], Optional[Tuple[int, ...]]]


def _builder(build: Optional[Build], raised: List[BaseException]) -> BuildC:
    """Wraps `build` as the library's callback. Its exceptions are appended to `raised`."""

    def build_c(entry: int, decision: int, built: int) -> Optional[Tuple[int, ...]]:
        try:
            made = None
            if build is not None:
                of_version = Decision(decision, built)
                try:
                    made = build(entry, of_version)
                finally:
                    of_version._built = None
            fingerprint: Tuple[int, ...] = () if made is None else lib.fingerprint_of(program_bytes(made))
            return fingerprint
        except BaseException as error:  # noqa: B902 - every rank has to get the error
            raised.append(error)
            lib.build_failed(built, NUMBERS["COMPILE_ERROR"], said(error))
            return None
    return build_c


class HitVote:
    """The vote on calls of one frame that a rank expects to run the version of the previous call."""

    def __init__(self, agreement: Agreement, frame: str, build: Build) -> None:
        self._agreement, self._frame, self._name = agreement, frame, frame.encode()
        self._raised: List[BaseException] = []
        self._build = _builder(build, self._raised)

    def __call__(self, observation: int, expected: Optional[int], untested: bool) -> Optional[Agreed]:
        """Collective. `observation`: address of the library's observation. `expected`: the entry of the previous call.
        `untested`: this rank has not verified the conditions that the version relies on beyond its inputs. Returns
        None if all ranks run the expected version and have verified its conditions; else the version that the ranks
        agreed on, whose conditions they have yet to test. Raises as Agreement.agree(), which other ranks may call
        instead."""
        said_c = native.agree(self._agreement._handle, self._name, observation, untested, self._build)
        code, entry, is_new, _, some = said_c
        if code == 0 and entry == expected and not is_new and not some:
            return None
        raised = self._raised[:]
        self._raised.clear()
        return self._agreement._agreed(self._frame, said_c, raised)


class Agreement:
    """Versions of functions on which the ranks of a group agree. Construction is collective. `consistency`
    is "same_graph", "same_collectives" or "shared_sizes"; `recompile_limit` is 1 to 64. `settle`: once
    the versions for one list of inputs, the new one included, reach half of the limit, the new version
    has symbols for all sizes and ints, except sizes marked static."""

    def __init__(self, group: Group, name: str = "world", consistency: str = "same_graph",
                 automatic_dynamic: bool = True, assume_at_least_two: bool = True,
                 recompile_limit: int = 8, settle: bool = True) -> None:
        self.group = group
        self._decisions: Dict[Tuple[str, int], Decision] = {}
        self._declared: Declared = {}
        self._untested = False  # True: the ranks test together what a version relies on beyond its inputs (HitVote)
        self._sites: List[CallSite] = []  # their observations are freed with this agreement
        config = _CONSISTENCY.get(consistency, -1), automatic_dynamic, assume_at_least_two, recompile_limit, settle
        code, self._handle = lib.agreement_create(group._handle, name, config)
        check(code)
        group._agreements.append(self)

    def agree(self, frame: str, observation: Optional[Observation],
              build: Optional[Build] = None) -> Agreed:
        """Collective, before each call of `frame`: returns the version to run. `build` makes a new version.
        `observation` is None on a rank that cannot make the call: all ranks then fail."""
        raised: List[BaseException] = []
        with self.group._turns:
            handle = None if observation is None else self._observed(observation, raised)
            try:
                return self._agree(frame, handle, build, raised)
            finally:
                if observation is not None and handle is not None:
                    observation._unmark(handle)

    def _agree(self, frame: str, observation: Optional[int], build: Optional[Build],
               raised: List[BaseException]) -> Agreed:
        """Like agree(), with the address of the library's observation. `raised` receives the exceptions of `build`; the
        last item of `raised` becomes the cause of a failure."""
        said_c = native.agree(self._handle, frame.encode(), observation or 0, self._untested, _builder(build, raised))
        return self._agreed(frame, said_c, raised)

    def _agreed(self, frame: str, said_c: Said, raised: List[BaseException]) -> Agreed:
        code, entry, is_new, decision, _ = said_c
        if code != 0:
            try:
                check(code)
            except Error as error:
                failed = bool(raised) and error.code in ("BAD_INPUT", "COMPILE_ERROR")
                raise error from (raised[-1] if failed else None)
        if entry < 0:
            return Agreed(None, False, Decision(decision) if decision else None)
        known = self._decisions.get((frame, entry))
        if known is None:
            known = self._decisions[frame, entry] = Decision(decision)
        return Agreed(entry, is_new != 0, known)

    def prefetch(self, frame: str, observation: Observation) -> None:
        """Commits to a call of `frame` with these inputs, so that its vote proceeds while the program works
        (Group.poke). Calls must be made in the order in which they were committed to. Call prefetch() on every rank or
        on none. Does not wait.
        The call must have the same sizes, ints, bools, marks and fields. Otherwise it is BadInput, with the value
        promised and the value given. All ranks get this error if a version has to be built; else the other ranks are
        already running, so the watchdog ends the job with this error and exit code 2."""
        with self.group._turns:
            self.group._promised = True
            handle = self._observed(observation, [])
            if handle is None:
                return  # the call raises, on all ranks
            try:
                check(lib.prefetch(self._handle, frame, handle))
            finally:
                observation._unmark(handle)

    def audit(self, frame: str, observation: Optional[Observation], program: Any,
              collectives: Optional[List[str]] = None, is_new: bool = False, program_text: str = "",
              trouble: Optional[str] = None, *, issued: bool = False) -> Tuple[int, Optional[Finding]]:
        """Collective. Called before each call of `frame`, instead of agree(): compares what the ranks are
        about to run and changes nothing. `program`: text or bytes that identify the program. `program_text`:
        a line of a few words, then the program's text; reports show its first line that differs.
        `collectives`: the program's collectives in order, a line each ([]: it has none; None: not known); text after
        a tab in a line is shown, but not compared. `issued`: `collectives` are not the program's, but those that this
        rank has issued since its last audited call. Fields of the observation are ignored. Returns how often the
        difference has been found so far (1: show it; 0: no difference) and the finding. Raises, on all ranks and
        before anything runs, if collectives do not match."""
        calls = "\n".join(line.split("\t", 1)[0] for line in collectives or [])
        run = (is_new, lib.fingerprint_of(program_bytes(program)),
               0 if collectives is None else 3 if issued else 2 if collectives else 1,
               lib.fingerprint_of(calls.encode()), program_text, "\n".join(collectives or []), trouble)
        with self.group._turns:
            handle = None if observation is None else self._observed(observation, [])
            code, times = lib.audit(self._handle, frame, handle, run)
            check(code)
            report = lib.finding(self._handle)
            return times, finding_of(report) if report else None

    def summary(self) -> str:
        """Returns a summary of the audit, for the end of the job."""
        text: str = lib.audit_summary(self._handle)
        return text

    def _observed(self, observation: Observation,
                  raised: List[BaseException]) -> Optional[int]:
        """Returns the address of the library's observation. None: the inputs cannot be declared, and this rank takes
        part with that error."""
        try:
            return observation._handle(self._declared)
        except (Error, OverflowError, TypeError, ValueError) as error:
            raised.append(error)
            self.group.trouble(error.message if isinstance(error, Error) else said(error), "BAD_INPUT")
            return None

    def _free(self) -> None:
        free_declared(self._declared)
        for site in self._sites:
            site.free()
        lib.agreement_free(self._handle)
        self._handle = 0
