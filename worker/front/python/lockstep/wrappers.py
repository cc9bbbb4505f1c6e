"""Wrappers for the functions of a training loop."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple, TypeVar

from .agreement import Agreed, Agreement, Build, program_bytes
from .call_site import CallSite
from .decision import Decision
from .errors import Error, Finding, said
from .field import Value
from .group import Group
from .objects import ObjectTable
from .observation import Observation

Result = TypeVar("Result")


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _named(function: Callable[..., Any], args: Tuple[Any, ...],
           kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments by the names of the parameters."""
    code = getattr(function, "__code__", None)
    names = list(code.co_varnames[:code.co_argcount]) if code is not None else []
    if getattr(function, "__self__", None) is not None:
        names = names[1:]
    named = {names[i] if i < len(names) else f"args[{i}]": value for i, value in enumerate(args)}
    return {**named, **kwargs}


def _inputs_of(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Mapping[str, Any],
               observe: Optional[Callable[..., Mapping[str, Any]]]) -> Mapping[str, Any]:
    return _named(function, args, kwargs) if observe is None else observe(*args, **kwargs)


def agreed(function: Callable[..., Result], group: Group, *, name: Optional[str] = None,
           build: Optional[Build] = None, agreement: Optional[Agreement] = None,
           observe: Optional[Callable[..., Mapping[str, Any]]] = None,
           marks: Optional[Mapping[str, Mapping[int, str]]] = None,
           fields: Optional[Callable[..., Mapping[str, Tuple[Value, str]]]] = None,
           key_order: bool = False) -> Callable[..., Result]:
    """Wraps any callable of a training loop, so that all ranks agree before each call: on the function's name,
    on what its inputs are, and on the version that runs. Making the wrapper is collective.

    `observe` maps the arguments to the inputs that count (default: all, by their names). `build`
    makes version `entry` for a decision and returns the callable that runs instead of `function`; this callable
    may have an attribute `program_text`, which is compared between ranks. Without `build`, `function` itself runs.
    `fields` maps the arguments to values that the ranks join, such as {"capacity": (512, "max")}
    (Observation.observe). `key_order`: the order of the keys of each dict among the inputs counts. Another
    order then needs another version, and ranks whose orders differ get ConstantMismatch. Objects
    other than arrays and numbers are passed as Opaque.
    `wrapper.last` is the last Agreed; `wrapper.prefetch(*args)` commits to a call with these arguments
    (Agreement.prefetch). An exception of the function is reported to the other ranks at their next call."""
    frame = name or _name_of(function)
    versions: Dict[int, Callable[..., Result]] = {}
    own = agreement or Agreement(group, f"agreed {frame}")

    def make(entry: int, decision: Decision) -> Any:
        if build is None:
            return None
        versions[entry] = build(entry, decision)
        return getattr(versions[entry], "program_text", None)

    objects = ObjectTable()

    def observation_of(inputs: Mapping[str, Any]) -> Observation:
        return Observation.of(inputs, marks, key_order=key_order, objects=objects)

    def observed(*args: Any, **kwargs: Any) -> Observation:
        with _told(group, "BAD_INPUT"):
            seen = observation_of(_inputs_of(function, args, kwargs, observe))
            for field, (value, join) in (fields(*args, **kwargs) if fields else {}).items():
                seen.observe(field, value, join)
            return seen

    def prefetch(*args: Any, **kwargs: Any) -> None:
        with group._turns:
            try:
                observation = observed(*args, **kwargs)
            except Exception:
                return  # the call raises, on all ranks
            own.prefetch(frame, observation)

    site = CallSite()
    own._sites.append(site)

    def agree(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Agreed:
        read = None
        try:
            if fields is not None or key_order:  # no plan reads them
                observation = observed(*args, **kwargs)
            else:
                with _told(group, "BAD_INPUT"):
                    inputs = None if observe is None else observe(*args, **kwargs)
                    seen = (args, kwargs) if inputs is None else inputs
                    read = site.read(seen)
                    if read is None:
                        if inputs is None:
                            inputs = _named(function, args, kwargs)
                        observation = observation_of(inputs)
                        site.learn(seen, observation)
        except Exception:
            # The other ranks are about to make the call: this rank takes part, with its error.
            own.agree(frame, None, make)
            raise
        return own.agree(frame, observation, make) if read is None else own._agree(
            frame, read, make, [])

    @functools.wraps(function, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Result:
        with group._turns:
            wrapper.last = last = agree(args, kwargs)  # type: ignore[attr-defined]
            run = versions.get(last.entry, function) if last.entry is not None else function
            with _told(group, "RUNTIME_ASSERT"):
                return run(*args, **kwargs)

    wrapper.last = None  # type: ignore[attr-defined]
    wrapper.prefetch = prefetch  # type: ignore[attr-defined]
    wrapper.agreement = own  # type: ignore[attr-defined]
    return wrapper


def audited(function: Callable[..., Result], group: Group, program: Callable[..., Any], *,
            name: Optional[str] = None, agreement: Optional[Agreement] = None,
            collectives: Optional[Callable[..., Optional[List[str]]]] = None,
            observe: Optional[Callable[..., Mapping[str, Any]]] = None,
            report: Optional[Callable[[Finding], None]] = None) -> Callable[..., Result]:
    """Wraps a callable that has a compiler of its own: before each call the ranks compare what they
    are about to run, and the wrapper changes nothing. `program(*args)` returns text or bytes that identify this
    rank's program, `collectives(*args)` the list of its collectives (default: not known). Each new finding goes to
    `report` (default: one line on stderr, from rank 0). If collectives would not match, the wrapper raises on all
    ranks, before the call."""
    frame = name or _name_of(function)
    own = agreement or Agreement(group, f"audited {frame}")
    seen: Set[bytes] = set()
    objects = ObjectTable()

    def to_stderr(finding: Finding) -> None:
        if group.rank == 0:
            print("lockstep audit:", finding.text, file=sys.stderr)

    @functools.wraps(function, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Result:
        with group._turns:
            try:
                observation = Observation.of(_inputs_of(function, args, kwargs, observe), objects=objects)
                mine = program_bytes(program(*args, **kwargs))
                calls = None if collectives is None else collectives(*args, **kwargs)
            except Exception as error:
                own.audit(frame, None, "", trouble=said(error))
                raise
            times, finding = own.audit(frame, observation, mine, calls, is_new=mine not in seen)
            seen.add(mine)
            if finding is not None and times == 1:
                (report or to_stderr)(finding)
            with _told(group, "RUNTIME_ASSERT"):
                return function(*args, **kwargs)

    wrapper.agreement = own  # type: ignore[attr-defined]
    return wrapper


@contextlib.contextmanager
def _told(group: Group, code: str) -> Iterator[None]:
    """Inside this context, an exception that leaves the block is reported to the other ranks at the next call."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Error):
            group.trouble(said(error), code)
        raise
