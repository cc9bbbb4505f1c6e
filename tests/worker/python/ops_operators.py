"""Operators, with a tensor or a number on either side: see ops_call.py."""

import functools

import torch
from ops_call import Call, LeftOut, arguments_of, numbers_beside


def sides(function, a, b, **more):
    """Two tensors, or one and a number on either side of it."""
    tensors = [side for side in (a, b) if isinstance(side, torch.Tensor)]
    if not tensors:
        raise LeftOut("two numbers")
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise LeftOut("dtypes that differ")
    if len(tensors) == 2:
        return Call(function, tensors, each=True, **more)
    (number,) = numbers_beside(tensors[0], [a if tensors[0] is b else b])
    return Call(function, tensors, [number, tensors[0] is b], each=True, **more)


def in_order(function, sample, **more):
    (other,) = arguments_of(sample, "other")
    return sides(function, sample.input, other, **more)


def turned(function, sample, **more):
    """The sample's input is the right side."""
    (other,) = arguments_of(sample, "other")
    return sides(function, other, sample.input, **more)


def added(sign, turn, sample):
    other, alpha = arguments_of(sample, "other", alpha=1)
    a, b = (other, sample.input) if turn else (sample.input, other)
    if alpha == 1:
        return sides("+" if sign > 0 else "-", a, b)
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.dtype != b.dtype:
        raise LeftOut("a number or another dtype beside alpha")
    return Call("+ times", [a, b], numbers_beside(b, [sign * alpha]))


def divided(sample):
    other, mode = arguments_of(sample, "other", rounding_mode=None)
    function = {None: "/", "floor": "/ rounded down", "trunc": "/ cut"}[mode]
    return sides(function, sample.input, other)


def negated(sample):
    arguments_of(sample)
    return Call("!", [sample.input], gradients=False)


CALLS = {name: functools.partial(in_order, function) for name, function in {
    "mul": "*", "true_divide": "/", "logical_and": "&&", "logical_or": "||", "logical_xor": "!= of truths",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items()}
CALLS |= {name: functools.partial(turned, function) for name, function in {
    "__radd__": "+", "__rsub__": "-", "__rmul__": "*", "__rdiv__": "/", "__rmod__": "%", "__rpow__": "**",
    "__rand__": "&", "__ror__": "|", "__rxor__": "^"}.items()}
CALLS |= {"add": functools.partial(added, 1, False), "sub": functools.partial(added, -1, False),
          "rsub": functools.partial(added, -1, True), "logical_not": negated,
          "div.no_rounding_mode": divided, "div.trunc_rounding": divided, "div.floor_rounding": divided}
