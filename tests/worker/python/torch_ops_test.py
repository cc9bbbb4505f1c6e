"""The ops of the tensor language on the samples of PyTorch's own op tests: values and gradients, interpreted and compiled,
beside torch's. Prints per op how many samples ran and why the others were left out. Fails for a wrong value and for an op
with under half of its samples run. Needs expecttest (torch.txt).
torch_ops_test.py PROGRAM [NAME...]; PROGRAM is the built op_samples, the names are torch's; without any all ops."""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
from ops_call import DTYPES, LeftOut
from ops_families import CALLS, MORE
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

warnings.filterwarnings("ignore")
TRIED = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)
# Of the largest value of a tensor, at least of 1; of each element.
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
EACH_BOUNDS = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
MOST_ELEMENTS = 20_000
NAMES = {short: numpy.dtype(str(dtype).removeprefix("torch.")) for dtype, short in DTYPES.items() if short != "bf16"}


def bytes_of(tensor):
    """numpy has no bf16."""
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()


def array_of(raw, dtype, count, start):
    """The numbers, and how many bytes they take."""
    if dtype != "bf16":
        array = numpy.frombuffer(raw, NAMES[dtype], count, start)
        return array, array.nbytes
    bits = numpy.frombuffer(raw, numpy.uint16, count, start)
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32), bits.nbytes


def numbers(tensor):
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def samples_of(op, dtype):
    """Those of both kinds."""
    if not op.supports_dtype(dtype, "cpu"):
        return
    for samples in (op.sample_inputs, op.reference_inputs):
        yield from samples("cpu", dtype, requires_grad=False)


def checked(call):
    if any(tensor.dtype not in DTYPES for tensor in call.tensors):
        raise LeftOut("dtype")
    if any(tensor.numel() > MOST_ELEMENTS for tensor in call.tensors):
        raise LeftOut("large")
    return call


def expected_of(op, sample, call):
    """torch's results, and the gradients of their sum by the call's tensors of floats."""
    leaves, constants = {}, {id(tensor) for tensor in call.constants}

    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in leaves:
            leaves[id(value)] = value.detach().clone().requires_grad_(
                value.is_floating_point() and call.gradients and op.supports_autograd and id(value) not in constants)
        return leaves[id(value)]

    first, arguments, named = tree_map(leaf, (sample.input, sample.args, sample.kwargs))
    results = call.results(op(first, *arguments, **named))
    floats = [result for result in results if result.requires_grad]
    if floats:
        torch.autograd.backward([result.sum() for result in floats])
    grads = []
    if call.gradients:
        mine = [None if id(tensor) in constants else leaves.get(id(tensor)) for tensor in call.tensors
                if tensor.is_floating_point()]
        grads = [None if of is None else torch.zeros_like(of) if of.grad is None else of.grad for of in mine]
    return [result.detach() for result in results], grads


def differs(got, expected, each, ignored):
    """What is wrong with the array, but for the places ignored; nothing: None."""
    if DTYPES.get(expected.dtype) != got["dtype"] or list(expected.shape) != got["sizes"]:
        return f"{got['dtype']}{got['sizes']} for {DTYPES.get(expected.dtype)}{list(expected.shape)}"
    theirs, ours = numbers(expected.resolve_neg().contiguous()), got["array"]
    bound = (EACH_BOUNDS if each else BOUNDS).get(expected.dtype, 0)
    with numpy.errstate(all="ignore"):
        if each:
            close = numpy.isclose(ours, theirs, rtol=bound, atol=bound, equal_nan=True)
        else:
            finite = numpy.abs(theirs[numpy.isfinite(theirs)])
            close = numpy.isclose(ours, theirs, rtol=0, atol=bound * max(1, finite.max(initial=0)), equal_nan=True)
    close = close | ignored
    if close.all():
        return None
    at = tuple(numpy.argwhere(~close)[0])
    return f"{ours[at]} for {theirs[at]} at {at}, of {(~close).sum()} of {close.size}"


class Samples:
    """What is sent to the program, and what torch says of it."""

    def __init__(self):
        self.spec, self.data, self.places = [], [], []
        self.left_out = collections.defaultdict(collections.Counter)

    def add(self, name, call, results, grads):
        tensors = [tensor.detach().resolve_conj().resolve_neg().contiguous() for tensor in call.tensors]
        self.spec.append({"function": call.function, "arguments": call.arguments, "gradients": call.gradients,
                          "tensors": [{"dtype": DTYPES[tensor.dtype], "sizes": list(tensor.shape)} for tensor in tensors]})
        self.data += [bytes_of(tensor) for tensor in tensors]
        shown = [f"{DTYPES[tensor.dtype]}{list(tensor.shape)} {tensor.flatten()[:4].tolist()}" for tensor in tensors]
        self.places.append((name, call, results, grads, f"{shown} {call.arguments}"))

    def collect(self, op, name):
        for dtype in TRIED:
            for sample in samples_of(op, dtype):
                try:
                    call = checked(CALLS[name](sample))
                    self.add(name, call, *expected_of(op, sample, call))
                except LeftOut as why:
                    self.left_out[name][str(why)] += 1
                except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
                    self.left_out[name]["torch: " + str(error).split("\n")[0][:60]] += 1

    def run(self, program):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "samples.json").write_text(json.dumps(self.spec))
            (folder / "samples.bin").write_bytes(b"".join(self.data))
            subprocess.run([program, folder], check=True)
            return json.loads((folder / "results.json").read_text()), (folder / "results.bin").read_bytes()


def main(program, *chosen):
    samples = Samples()
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if name in CALLS and (not chosen or name in chosen):
            samples.collect(op, name)
    for name, more in MORE.items():
        if not chosen or name in chosen:
            for call, results in more():
                call.gradients = False
                samples.add(name, call, results, [])
    results, raw = samples.run(program)
    start, wrong, ran = 0, collections.defaultdict(list), collections.defaultdict(set)
    for result in results:
        name, call, values, grads, shown = samples.places[result["sample"]]
        if result["way"] == "refused":
            samples.left_out[name]["refused: " + result["why"].split(": ", 3)[-1].split("[")[0]] += 1
            continue
        count = int(numpy.prod(result["sizes"], dtype=int))
        array, size = array_of(raw, result["dtype"], count, start)
        result["array"] = array.reshape(result["sizes"])
        start += size
        ran[name].add(result["sample"])
        ignored, theirs = False, None
        if "value" in result:
            theirs = values[result["value"]] if result["value"] < len(values) else None
            if theirs is None:
                wrong[name].append(f"{shown}: a result more than torch's {len(values)}")
        else:
            theirs = grads[result["by"]]
            if not call.nan_gradients:
                ignored = numpy.isnan(numbers(values[0]))
        error = theirs is not None and differs(result, theirs, call.each, ignored)
        if error:
            which = f"gradient {result['by']}" if "by" in result else f"value {result['value']}"
            wrong[name].append(f"{result['way']} {which} of {shown}: {error}")
    print(f"{'op':32} {'ran':>5} {'left out':>8} {'wrong':>5}  why left out")
    few = []
    for name in [*CALLS, *MORE]:
        if chosen and name not in chosen:
            continue
        reasons = samples.left_out[name]
        if len(ran[name]) <= reasons.total():
            few.append(name)
        why = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        print(f"{name:32} {len(ran[name]):5} {reasons.total():8} {len(wrong[name]):5}  {why}")
        for line in wrong[name][:4]:
            print("    " + line[:300])
    total = sum(map(len, wrong.values()))
    print(f"{sum(map(len, ran.values()))} samples, {total} wrong values")
    if few:
        print("under half of the samples ran:", ", ".join(few))
    return 1 if total or few else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
