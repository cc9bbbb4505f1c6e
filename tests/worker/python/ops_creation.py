"""New tensors, casts and values read back: see ops_call.py. A new tensor has the sizes of one that is passed in for
them."""

import functools

import torch
from ops_call import DTYPES, Call, LeftOut, arguments_of


def sized(*sizes):
    return torch.zeros(sizes, dtype=torch.bool)


def name_of(dtype):
    if dtype not in DTYPES:
        raise LeftOut("dtype")
    return DTYPES[dtype]


def made(function, sample):
    *value, dtype, _ = arguments_of(sample, *(["fill_value"] if function == "full" else []), dtype=None, device=None)
    return Call(function, [sized(*sample.input)], [*map(float, value), name_of(dtype)], gradients=False)


def like(function, sample):
    """Of another dtype it is the function that takes sizes."""
    *value, dtype, _ = arguments_of(sample, *(["fill_value"] if function == "full" else []), dtype=None, device=None)
    value = [float(one) for one in value]
    if dtype in (None, sample.input.dtype):
        return Call(function + "_like", [sample.input], value, gradients=False)
    return Call(function, [sized(*sample.input.shape)], [*value, name_of(dtype)], gradients=False)


def arange(sample):
    numbers = [sample.input, *sample.args]
    named = dict(sample.kwargs)
    dtype, _ = named.pop("dtype", None), named.pop("device", None)
    numbers += [named.pop("end")] if "end" in named else []
    if named or not all(isinstance(number, (int, float)) for number in numbers):
        raise LeftOut("argument " + ", ".join(sorted(named)))
    result = torch.arange(*numbers, dtype=dtype)
    start, step = numbers[0] if len(numbers) > 1 else 0, numbers[2] if len(numbers) > 2 else 1
    if not result.is_floating_point() and (start != int(start) or step != int(step)):
        raise LeftOut("fractions that torch cuts to ints")
    if not result.is_floating_point():
        start, step = int(start), int(step)
    return Call("arange", [sized(len(result))], [start + 0, step + 0, name_of(result.dtype)], gradients=False)


def scalar(sample):
    dtype, _, _ = arguments_of(sample, dtype=None, device=None, requires_grad=False)
    return Call("scalar", [sized()], [int(sample.input), name_of(dtype)], gradients=False)


def cast(dtype, x):
    info = None if dtype.is_floating_point or dtype == torch.bool else torch.iinfo(dtype)
    if info and x.is_floating_point() and not (x.isfinite() & (x.trunc() >= info.min) & (x.trunc() <= info.max)).all():
        raise LeftOut("floats that no int of the dtype stands for")
    return Call("cast", [x], [name_of(dtype)])


def cast_to(dtype, sample):
    arguments_of(sample, memory_format=None)
    return cast(dtype, sample.input)


def to(sample):
    """By device, dtype or both, or as another tensor."""
    dtypes = [argument if isinstance(argument, torch.dtype) else argument.dtype for argument in sample.args
              if isinstance(argument, (torch.dtype, torch.Tensor))]
    return cast(dtypes[0] if dtypes else sample.input.dtype, sample.input)


def item(sample):
    wide = torch.float64 if sample.input.is_floating_point() else torch.int64
    return Call("item", [sample.input], gradients=False, results=lambda value: [torch.tensor(value, dtype=wide)])


def one_hot(sample):
    (classes,) = arguments_of(sample, num_classes=-1)
    return Call("one_hot", [sample.input], [None if classes < 0 else classes], gradients=False)


CALLS = {name: functools.partial(made, name) for name in ("full", "zeros", "ones")}
CALLS |= {name + "_like": functools.partial(like, name) for name in ("full", "zeros", "ones")}
CALLS |= {name: functools.partial(cast_to, dtype) for name, dtype in {
    "bool": torch.bool, "byte": torch.uint8, "char": torch.int8, "short": torch.int16, "int": torch.int32,
    "long": torch.int64, "half": torch.float16, "bfloat16": torch.bfloat16, "float": torch.float32,
    "double": torch.float64}.items()}
CALLS |= {"arange": arange, "scalar_tensor": scalar, "to": to, "item": item, "nn.functional.one_hot": one_hot}
