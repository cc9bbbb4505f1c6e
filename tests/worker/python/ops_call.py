"""What the families of op samples (ops_*.py) share. A family says for each op of torch's that it names how a sample of
torch's op tests is written in the tensor language: CALLS = {torch's name: function of a sample, giving a Call}. The name
of a variant is "name.variant". It may have MORE = {name: function giving pairs of a Call and of torch's results}, for what
has no op test, or not enough; or, in place of the results, a function of the call's tensors that gives them: then their
gradients are compared as well. The C++ side of a family is tests/worker/samples/samples_*.cpp."""

import dataclasses
import math
import typing

import torch

DTYPES = {torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
          torch.int64: "i64", torch.float32: "f32", torch.float64: "f64",
          torch.float16: "f16", torch.bfloat16: "bf16"}


class LeftOut(Exception):
    """Why a sample is not for this language."""


@dataclasses.dataclass
class Call:
    function: str  # a name of the family's C++ side
    tensors: list  # the sample's own tensors where they have gradients
    arguments: list = dataclasses.field(default_factory=list)  # as JSON
    # Of torch's value the tensors that the function gives, in order.
    results: typing.Callable = lambda value: list(value) if isinstance(value, (tuple, list)) else [value]
    constants: list = dataclasses.field(default_factory=list)  # tensors for which torch has no gradient
    gradients: bool = True  # compare those of the sum of all results that are floats
    nan_gradients: bool = True  # also where the result is not a number
    each: bool = False  # also every element to its own size, to looser bounds
    values: bool = True  # else sizes and dtypes alone
    symbolic: bool = True  # else sizes are numbers in the graph


def arguments_of(sample, *names, **defaults):
    """The values of a sample's arguments behind its input, by position or name; those without a default must be there.
    Raises LeftOut for an argument of another name."""
    values = dict(zip(list(names) + list(defaults), sample.args))
    if len(sample.args) > len(names) + len(defaults):
        raise LeftOut("more arguments")
    values |= sample.kwargs
    unknown = set(values) - set(names) - set(defaults)
    if unknown:
        raise LeftOut("argument " + ", ".join(sorted(unknown)))
    missing = [name for name in names if name not in values]
    if missing:
        raise LeftOut("no " + ", ".join(missing))
    return [values.get(name, defaults.get(name)) for name in list(names) + list(defaults)]


def numbers_beside(tensor, values):
    """Numbers as JSON, as the tensor takes them; not-a-number and infinities as text, which JSON has not."""
    if not all(type(value) in (int, float) for value in values):
        raise LeftOut("an argument that is no real number")
    if tensor.is_floating_point():
        return [float(value) if math.isfinite(value) else str(float(value)) for value in values]
    if not all(isinstance(value, int) for value in values):
        raise LeftOut("a fraction beside ints, which torch makes floats")
    return list(values)
