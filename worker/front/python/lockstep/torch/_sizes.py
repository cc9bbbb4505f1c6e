"""What lockstep.torch uses of torch's symbolic sizes beyond its public interface. "Seen in" as in _hooks.py."""

from __future__ import annotations

import importlib
import inspect
import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

_torch: Any = torch


def elements_of(node: Any) -> List[Any]:
    """Returns, for each tensor with symbolic sizes that goes into a node of a graph, the product of these sizes as a
    sympy expression. Seen in 2.15."""
    found = []
    for value in [arg.meta.get("example_value", arg.meta.get("val")) for arg in node.all_input_nodes]:
        sizes = [size.node.expr for size in getattr(value, "shape", ()) if not isinstance(size, int)]
        found += [math.prod(sizes[1:], start=sizes[0])] if sizes else []
    return found


def sources_without_value(graph: Any) -> Dict[str, str]:
    """Returns torch's names of the sources of a graph's input sizes, by symbol, for all sizes that are symbols (sizes
    without a value during the trace included). grapharg: seen in 2.15."""
    found: Dict[str, str] = {}
    for node in graph.graph.nodes:
        source = getattr(node.meta.get("grapharg"), "source", None) if node.op == "placeholder" else None
        for dim, size in enumerate(getattr(node.meta.get("example_value"), "shape", ()) if source is not None else ()):
            if not isinstance(size, int) and size.node.expr.is_Symbol:
                found[str(size.node.expr)] = f"{name_of_source(source)}.size()[{dim}]"
    return found


def name_of_source(source: Any) -> str:
    name = source.name  # a method before torch 2.10
    return str(name() if callable(name) else name)


def hint(size: Any) -> Optional[int]:
    """Returns the value that a tensor's size in a graph has in this call; None: not known before the graph runs. Seen
    in 2.15."""
    if isinstance(size, int):
        return size
    try:
        found = size.node.hint
    except Exception:
        return None
    return None if found is None else int(found)


def mark_size(tensor: Any, dim: int, least: Optional[int], hint: int, strictly: bool) -> None:
    """Marks a size as a symbol. `least`: its least value; None: no bound. Symbols of torch with a value are never 0 or
    1, so a size that may be 0 or 1 has no value during the trace. `strictly`: torch raises if it cannot keep the size a
    symbol. hint_override: since 2.10."""
    if least is None or least < 2:
        unbacked = _torch._dynamo.decorators.mark_unbacked
        hinted = {"hint_override": hint} if "hint_override" in inspect.signature(unbacked).parameters else {}
        unbacked(tensor, dim, **hinted)
    elif strictly:
        _torch._dynamo.mark_dynamic(tensor, dim)
    else:
        _torch._dynamo.maybe_mark_dynamic(tensor, dim)


def shape_env_of(inputs: Sequence[Any]) -> Any:
    """Returns the ShapeEnv of the frame that is being compiled. Seen in 2.15."""
    context = _torch._guards.TracingContext.try_get()
    mode = context.fake_mode if context is not None else _torch._guards.detect_fake_mode(inputs)
    return None if mode is None else mode.shape_env


def equals_of(shape_env: Any) -> List[Tuple[Any, Any]]:
    """Returns the sizes that equal an expression of other sizes, each with that expression. Seen in 2.15."""
    return [(symbol, shape_env.simplify(symbol)) for symbol in shape_env.replacements]


def ranges_of(shape_env: Any) -> Dict[Any, Tuple[Optional[int], Optional[int]]]:
    """Returns the least and the largest value (None: no bound) of each size and int that equals_of() does not return.
    Seen in 2.15."""
    return {symbol: (int(allowed.lower) if allowed.lower.is_Integer else None,
                     int(allowed.upper) if allowed.upper.is_Integer else None)
            for symbol, allowed in shape_env.var_to_range.items() if symbol not in shape_env.replacements}


def least_size(shape_env: Any) -> int:
    """Returns the least value that torch assumes of a size. Seen in 2.15."""
    return int(shape_env._default_value_range().lower)


def is_implied(condition: Any, ranges: Mapping[Any, Tuple[Optional[int], Optional[int]]]) -> bool:
    """Returns whether a condition follows from the ranges of the sizes in it. Seen in 2.15."""
    values: Any = importlib.import_module("torch.utils._sympy.value_ranges")
    without_end = importlib.import_module("torch.utils._sympy.numbers").int_oo
    known = values.bound_sympy(condition, {
        symbol: values.ValueRanges(*(end if value is None else value for value, end in
                                     zip(ranges[symbol], (-without_end, without_end))))
        for symbol in condition.free_symbols if symbol in ranges})
    return bool(known.is_singleton() and known.lower)


def needs_a_value(error: BaseException) -> bool:
    """Returns whether a trace failed because it needed a size that has no value during the trace. Seen in 2.15."""
    shapes: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    seen: Optional[BaseException] = error
    while seen is not None:
        if isinstance(seen, shapes.GuardOnDataDependentSymNode) or "data-dependent" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
