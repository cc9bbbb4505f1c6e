"""Elementwise ops of the tensor language on the samples of PyTorch's own op tests: values and gradients, interpreted and
compiled, beside torch's. Prints per op how many samples ran and why the others were left out. Needs expecttest (torch.txt).
torch_ops_test.py PROGRAM, the built op_samples."""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db

warnings.filterwarnings("ignore")
DTYPES = {torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
          torch.int64: "i64", torch.float32: "f32", torch.float64: "f64"}
TRIED = (torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool)
BOUNDS = {torch.float64: 1e-11, torch.float32: 2e-5}
MOST_ELEMENTS = 20_000
# Gradients where the value is not a number are not compared: torch's of elu is 1, and not-a-number where it computes with
# vectors; that of clamp with two tensors as bounds goes to x alone, or to none.
AT_NAN = ("nn.functional.elu", "clamp")
# torch's name: ours, and what its samples may name besides, with its default
OPS = {name: (name, ()) for name in (
    "neg abs sign floor ceil round trunc exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tan tanh sigmoid erf isnan isinf "
    "isfinite bitwise_not nan_to_num atan2 pow remainder fmod floor_divide maximum minimum clamp_min clamp_max bitwise_and "
    "bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift clamp").split()}
OPS |= {"nn.functional." + name: (name, more) for name, more in {
    "relu": (), "silu": (), "gelu": (), "softplus": (("beta", 1), ("threshold", 20)),
    "leaky_relu": (("negative_slope", 0.01),), "elu": (("alpha", 1.0),)}.items()}


class LeftOut(Exception):
    """Why a sample is not for this language."""


def call_of(name, sample):
    """Our function's name, its tensors and its numbers."""
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
    for key in ("inplace",):
        if named.get(key) is False:
            named.pop(key)
    if named:
        raise LeftOut("argument " + ", ".join(sorted(named)))
    tensors = [sample.input, *[argument for argument in arguments if isinstance(argument, torch.Tensor)]]
    plain = [argument for argument in arguments if not isinstance(argument, torch.Tensor)]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise LeftOut("a number in place of the first tensor")
    if plain and len(tensors) > 1:
        raise LeftOut("a number and a tensor as bounds")
    if not all(type(number) in (int, float) for number in plain):
        raise LeftOut("an argument that is no real number")
    if any(tensor.dtype not in DTYPES for tensor in tensors):
        raise LeftOut("dtype")
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise LeftOut("dtypes that differ")
    if plain and not tensors[0].is_floating_point():
        raise LeftOut("a number beside ints")
    if max(tensor.numel() for tensor in tensors) > MOST_ELEMENTS:
        raise LeftOut("large")
    return function, tensors, numbers + [float(number) for number in plain]


def samples_of(op, dtype):
    """Those of both kinds, each with its call by torch."""
    if not op.supports_dtype(dtype, "cpu"):
        return
    for samples in (op.sample_inputs, op.reference_inputs):
        yield from samples("cpu", dtype, requires_grad=False)


def expected_of(op, sample, tensors):
    """torch's value, and the gradients of its sum."""
    leaves = [tensor.detach().clone().requires_grad_(tensor.is_floating_point() and op.supports_autograd)
              for tensor in tensors]
    rest = iter(leaves[1:])
    arguments = [next(rest) if isinstance(argument, torch.Tensor) else argument for argument in sample.args]
    value = op(leaves[0], *arguments, **sample.kwargs)
    grads = [None] * len(leaves)
    if value.requires_grad:
        value.sum().backward()
        grads = [leaf.grad for leaf in leaves]
    grads = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, grads)]
    return value.detach(), [grad for leaf, grad in zip(leaves, grads) if leaf.is_floating_point()]


def differs(got, expected, ignored):
    """What is wrong with the array, but for the places ignored; nothing: None."""
    if DTYPES.get(expected.dtype) != got["dtype"] or list(expected.shape) != got["sizes"]:
        return f"{got['dtype']}{got['sizes']} for {DTYPES.get(expected.dtype)}{list(expected.shape)}"
    bound = BOUNDS.get(expected.dtype, 0)
    theirs = expected.contiguous().numpy()
    close = numpy.isclose(got["array"], theirs, rtol=bound, atol=bound, equal_nan=True) | ignored
    if close.all():
        return None
    at = tuple(numpy.argwhere(~close)[0])
    return f"{got['array'][at]} for {theirs[at]} at {at}, of {(~close).sum()} of {close.size}"


def main(program):
    spec, data, expected, places = [], [], [], []
    table = {name: collections.Counter() for name in OPS}
    reasons = {name: collections.Counter() for name in OPS}
    for op in op_db:
        if op.name not in OPS or op.variant_test_name:
            continue
        for dtype in TRIED:
            for sample in samples_of(op, dtype):
                try:
                    function, tensors, numbers = call_of(op.name, sample)
                    value, grads = expected_of(op, sample, tensors)
                except LeftOut as why:
                    table[op.name]["left out"] += 1
                    reasons[op.name][str(why)] += 1
                    continue
                except RuntimeError as error:
                    table[op.name]["left out"] += 1
                    reasons[op.name]["torch: " + str(error).split("\n")[0][:60]] += 1
                    continue
                spec.append({"function": function, "numbers": numbers, "tensors": [
                    {"dtype": DTYPES[tensor.dtype], "sizes": list(tensor.shape)} for tensor in tensors]})
                data += [tensor.detach().resolve_conj().resolve_neg().contiguous().numpy().tobytes() for tensor in tensors]
                expected.append([value, *grads])
                places.append((op.name, [tensor.flatten()[:3].tolist() for tensor in tensors], numbers))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "samples.json").write_text(json.dumps(spec))
        (folder / "samples.bin").write_bytes(b"".join(data))
        subprocess.run([program, folder], check=True)
        results = json.loads((folder / "results.json").read_text())
        raw = (folder / "results.bin").read_bytes()
    names = {short: numpy.dtype(str(dtype).removeprefix("torch.")) for dtype, short in DTYPES.items()}
    start, wrong, ran = 0, collections.defaultdict(list), collections.defaultdict(set)
    for result in results:
        sample, *by = result["output"].split(" by ")
        name = places[int(sample)][0]
        if result["way"] == "refused":
            table[name]["left out"] += 1
            words = result["why"].split(": ", 3)[-1].split("[")[0]
            reasons[name]["refused: " + words] += 1
            continue
        dtype = names[result["dtype"]]
        count = int(numpy.prod(result["sizes"], dtype=int))
        result["array"] = numpy.frombuffer(raw, dtype, count, start).reshape(result["sizes"])
        start += count * dtype.itemsize
        ran[name].add(sample)
        ignored = name in AT_NAN and bool(by) and numpy.isnan(expected[int(sample)][0].numpy())
        error = differs(result, expected[int(sample)][1 + int(by[0]) if by else 0], ignored)
        if error:
            wrong[name].append(f"{result['way']} {result['output']} {places[int(sample)][1:]}: {error}")
    print(f"{'op':32} {'ran':>5} {'left out':>8} {'wrong':>5}  why left out")
    for name in OPS:
        why = "; ".join(f"{count} {reason}" for reason, count in reasons[name].most_common())
        print(f"{name:32} {len(ran[name]):5} {table[name]['left out']:8} {len(wrong[name]):5}  {why}")
        for line in wrong[name][:4]:
            print("    " + line[:300])
    total = sum(map(len, wrong.values()))
    print(f"{sum(map(len, ran.values()))} samples, {total} wrong values; not compared: the gradients of "
          f"{' and '.join(AT_NAN)} at not-a-number")
    missing = [name for name in OPS if not ran[name]]
    if missing:
        print("no sample of", ", ".join(missing))
    return 1 if total or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
