"""Graphs of torch.fx, and the lists of their collectives, as text that ranks compare line by line."""

from __future__ import annotations

import os
import re
from typing import Any, Iterator, List, Sequence, Tuple

import torch

from ._hooks import group_named, nested_graphs
from ._sizes import hint
from .collectives import INSIDE, POINT_TO_POINT, dtype_name, graph_word, tensor_text
from .frames import GraphText

# Text that differs between ranks with equal graphs: addresses, and device numbers.
_OWN = re.compile(r" at 0x[0-9a-f]+|(?<=\bcuda):\d+|(?<=device\(type='cuda'), index=\d+")
_ITEM, _ROOT = re.compile(r"\._modules\['([^']*)'\]"), re.compile(r"^[LG]\['[^']*'\]")
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


def graph_text(output: Any, watched: str) -> GraphText:
    """Returns the text of a frame's graphs. `watched`: the name of the watched process group."""
    out = GraphText([], [])
    _add(out, output.graph, "", watched)
    for name, graph in sorted(nested_graphs(output).items()):
        out.nodes.append(f"graph {name}")
        _add(out, graph, "  ", watched)
    return out


def backward_text(backwards: Sequence[Any], watched: str) -> GraphText:
    """Returns the text of backward graphs. Their inputs name the values that the forward graphs save for them. (The
    forward graphs cannot be compared here: a backend changes a graph in place if it builds the graph, but not if it
    finds the graph in a cache.)"""
    out = GraphText([], [])
    for backward in backwards:
        found = GraphText(out.nodes, [])
        out.nodes.append("the backward pass")
        _add(found, backward.graph, "  ", watched)
        for name, nested in sorted(backward.named_modules()):
            if name and isinstance(nested, torch.fx.GraphModule):
                out.nodes.append(f"  graph {name}")
                _add(found, nested.graph, "    ", watched)
        out.collectives.extend(_in_backward(line) for line in found.collectives)
    return out


def groups_of(graph: torch.fx.GraphModule) -> List[Any]:
    """Returns the process groups of the collectives in a graph and in its nested graphs, each once; None in place of an
    unknown group. The ranks of these groups have to run the graph together. Returns no group if a send or a receive
    comes before all collectives: a peer may then have to run first."""
    found: List[Any] = []
    for word, node in collective_nodes(graph):
        if word in POINT_TO_POINT:
            if not found:
                return []
            continue
        group = group_of(node)
        found += [] if any(group is known for known in found) else [group]
    return found


def collective_nodes(graph: torch.fx.GraphModule, within: bool = True) -> Iterator[Tuple[str, Any]]:
    """Yields the collectives in a graph, and (`within`) in its nested graphs, each as its word and its node."""
    for module in graph.modules() if within else [graph]:
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            collective = graph_word(node.target) if node.op == "call_function" else None
            if collective is not None:
                yield collective[0], node


def group_of(node: Any) -> Any:
    """Returns the process group of a collective's node; None: not known."""
    names = [str(arg) for arg in reversed(node.args) if isinstance(arg, str)]
    return next((group for group in map(group_named, names) if group is not None), None)


def collective_places(output: Any) -> List[Tuple[str, str]]:
    """Returns the collectives of a frame's graphs in order, each as its word and place: "train.py:41
    (layers.3.mlp)"."""
    found = []
    for graph in (output.graph, *(graph for _, graph in sorted(nested_graphs(output).items()))):
        for node in graph.nodes:
            collective = graph_word(node.target) if node.op == "call_function" else None
            if collective is not None:
                module = _module(node)
                found.append((collective[0], place_of(node) + (f" ({module})" if module else "")))
    return found


def _module(node: Any) -> str:
    """Returns the path of the innermost module that issues the node, such as "layers.3.mlp". nn_module_stack: seen in
    2.8, 2.11 and 2.15."""
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    path = _ITEM.sub(r".\1", str(modules[-1][0])) if modules else ""
    return _ROOT.sub("", path).strip(".")


def _in_backward(line: str) -> str:
    text, tab, place = line.partition("\t")
    return f"{text} in the backward pass{tab}{place}"


def _add(out: GraphText, graph: Any, indent: str, watched: str) -> None:
    for node in graph.nodes:
        collective = graph_word(node.target) if node.op == "call_function" else None
        groups = [str(arg) for arg in node.args if isinstance(arg, str)] if collective else []
        group = group_of(node) if collective else None
        where = "" if group is None or group.group_name == watched else f" in a group of {group.size()}"
        args = ", ".join([*(_argument(arg, group) for arg in node.args),
                          *(f"{key}={_argument(arg, group)}" for key, arg in node.kwargs.items())])
        place = _place(node)
        line = f"{indent}{node.name} = {node.op} {_target(node.target)}({args}){where}{_value(node)}"
        out.nodes.append(line + place)
        if collective is not None:
            word, sizes = collective
            payload = [_tensor(arg, sizes) for arg in node.args if hasattr(arg, "meta")]
            how = [text for text in groups if group is None or text != group.group_name]
            out.collectives.append(f"{' '.join([word, *how])} {', '.join(payload)}{where}{place}")


def _argument(value: Any, group: Any) -> str:
    if group is not None and value == group.group_name:
        return "group"
    return _OWN.sub("", repr(value))


def _target(target: Any) -> str:
    return target if isinstance(target, str) else _OWN.sub(
        "", f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', repr(target))}")


def _value(node: Any) -> str:
    value = _example(node)
    return "" if not hasattr(value, "dtype") or not hasattr(value, "shape") else (
        f": {tensor_text(value.dtype, list(value.shape))}")


def _example(node: Any) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def _tensor(node: Any, sizes: bool) -> str:
    """Returns the text of a node's tensor. `sizes`: with the tensor's sizes in this call."""
    value = _example(node)
    if not hasattr(value, "dtype"):
        return "?"
    return tensor_text(value.dtype, [hint(size) for size in value.shape]) if sizes else dtype_name(value.dtype)


def place_of(node: Any) -> str:
    """Returns the user's line of a node, "train.py:41"; "": not known."""
    return _place(node)[4:]


def _place(node: Any) -> str:
    for file, line in reversed(_PLACE.findall(node.stack_trace or "")):
        if not file.startswith(INSIDE):
            return f"\tat {os.path.basename(file)}:{line}"
    return ""
