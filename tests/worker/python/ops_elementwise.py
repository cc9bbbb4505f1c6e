"""Elementwise ops: see ops_call.py."""

import functools

import torch
from ops_call import Call, LeftOut, numbers_beside

# torch's name: ours, and what its samples may name besides, with its default
OPS = {name: (name, ()) for name in (
    "neg abs sign floor ceil round trunc exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tan tanh sigmoid erf isnan isinf "
    "isfinite bitwise_not nan_to_num atan2 pow remainder fmod floor_divide maximum minimum clamp_min clamp_max bitwise_and "
    "bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift clamp").split()}
OPS |= {"nn.functional." + name: (name, more) for name, more in {
    "relu": (), "silu": (), "gelu": (), "softplus": (("beta", 1), ("threshold", 20)),
    "leaky_relu": (("negative_slope", 0.01),), "elu": (("alpha", 1.0),)}.items()}
OPS |= {f"round.decimals_{variant}": ("round_decimals", (("decimals", 0),)) for variant in ("0", "3", "neg_3")}
# Gradients where the value is not a number are not compared: torch's of elu is 1, and not-a-number where it computes with
# vectors; that of clamp with two tensors as bounds goes to x alone, or to none.
AT_NAN = ("nn.functional.elu", "clamp")


def call_of(name, sample):
    function, more = OPS[name]
    arguments, named = list(sample.args), dict(sample.kwargs)
    if function == "gelu" and named.pop("approximate", "none") == "none":
        function = "gelu_exact"
    if function == "clamp":
        arguments += [None] * (2 - len(arguments))
        if None in arguments and arguments != [None, None]:
            function = "clamp_max" if arguments[0] is None else "clamp_min"
            arguments = [argument for argument in arguments if argument is not None]
    numbers = [float(named.pop(key, default)) for key, default in more]
    if named.get("inplace") is False:
        named.pop("inplace")
    if named:
        raise LeftOut("argument " + ", ".join(sorted(named)))
    tensors = [sample.input, *[argument for argument in arguments if isinstance(argument, torch.Tensor)]]
    plain = [argument for argument in arguments if not isinstance(argument, torch.Tensor)]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise LeftOut("a number in place of the first tensor")
    if plain and len(tensors) > 1:
        raise LeftOut("a number and a tensor as bounds")
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise LeftOut("dtypes that differ")
    return Call(function, tensors, numbers + numbers_beside(tensors[0], plain), nan_gradients=name not in AT_NAN, each=True)


CALLS = {name: functools.partial(call_of, name) for name in OPS}
