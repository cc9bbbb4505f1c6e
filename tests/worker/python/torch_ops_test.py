"""The ops of the tensor language on the samples of PyTorch's own op tests: values and gradients, interpreted and
compiled, beside torch's. Prints per op and dtype how many samples ran of how many, and why the others were left out;
per dtype the largest error. Fails for a wrong value, and for an op that runs under half of its samples, in a
dtype of floats or in all together. Needs expecttest (torch.txt).
torch_ops_test.py [--write FILE | --calls FILE] PROGRAM [NAME...]; PROGRAM is the built op_samples, the names are torch's;
without any all ops. FILE gets the table, as the one beside this file, op_samples.md, whose rows of other ops stay; or,
with nothing run, the smallest call of each function, as samples/calls.json."""

import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings

import numpy
import torch
from ops_call import DTYPES, LeftOut
from ops_families import CALLS, MORE
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_flatten, tree_map

warnings.filterwarnings("ignore")
TRIED = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)
# Of the largest value of a tensor, at least of 1; where large and small values are in one tensor, also of each element.
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
EACH_BOUNDS = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
MOST_ELEMENTS = 25_000
HALVES = (torch.bfloat16, torch.float16)
# The samples of f32 once more with other numbers, values alone: of a large mean, and large ones. They are beside what
# torch gives in f64, and may be off twice as far as torch in f32.
FAR = {"mean 1e4": lambda tensor: tensor + 1e4, "times 1e8": lambda tensor: tensor * 1e8}
COLUMNS = {dtype: DTYPES[dtype] for dtype in TRIED} | {kind: kind for kind in FAR}
HIGHER_ORDER = {id(op) for op in hop_db}
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


def seed():
    """The samples are the same ones in every run."""
    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)


def samples_of(op, dtype):
    """Those of both kinds; of higher-order ops those of floats, since half of torch's own refuse ints."""
    if not op.supports_dtype(dtype, "cpu") or id(op) in HIGHER_ORDER and not dtype.is_floating_point:
        return
    for samples in (op.sample_inputs, op.reference_inputs):
        yield from samples("cpu", dtype, requires_grad=False)


def of_floats(change):
    """Of the tensors of floats among a sample's arguments; dtypes are among these, too."""
    return lambda value: change(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def checked(call):
    if any(tensor.dtype not in DTYPES for tensor in call.tensors):
        raise LeftOut("dtype")
    if any(tensor.numel() > MOST_ELEMENTS for tensor in call.tensors):
        raise LeftOut("large")
    return call


def through_torch(compute, call, differentiable, wide):
    """What compute gives of copies of the tensors that it asks for, and the gradients of its sum by the call's tensors of
    floats. wide: bf16 and f16 as f32."""
    leaves, constants = {}, {id(tensor) for tensor in call.constants}

    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in leaves:
            own = value.detach().float() if wide and value.dtype in HALVES else value.detach().clone()
            leaves[id(value)] = own.requires_grad_(
                value.is_floating_point() and call.gradients and differentiable and id(value) not in constants)
        return leaves[id(value)]

    results = call.results(compute(leaf))
    if not all(isinstance(result, torch.Tensor) for result in results):
        raise LeftOut("torch gives no tensor")
    floats = [result for result in results if result.requires_grad]
    if floats:
        torch.autograd.backward([result.sum() for result in floats])
    grads = []
    if call.gradients:
        mine = [(tensor, None if id(tensor) in constants else leaves.get(id(tensor))) for tensor in call.tensors
                if tensor.is_floating_point()]
        grads = [None if of is None else (torch.zeros_like(of) if of.grad is None else of.grad).to(tensor.dtype)
                 for tensor, of in mine]
    return [result.detach() for result in results], grads


def expected_of(compute, call, differentiable=True):
    """torch's results and gradients. Those of bf16 and f16 are what f32 gives for the same inputs, rounded once: torch
    rounds between the steps of many a gradient, and overflows there."""
    try:
        results, grads = through_torch(compute, call, differentiable, wide=False)
    except RuntimeError as error:  # found by the backward pass alone
        if "derivative for" not in str(error):
            raise
        call.gradients = False
        results, grads = through_torch(compute, call, differentiable, wide=False)
    if call.gradients and any(tensor.dtype in HALVES for tensor in call.tensors):
        grads = through_torch(compute, call, differentiable, wide=True)[1]
    return results, grads


def by_op(op, sample):
    def compute(leaf):
        first, arguments, named = tree_map(leaf, (sample.input, sample.args, sample.kwargs))
        return op(first, *arguments, **named)
    return compute


def by_function(function, call):
    """Of the call's own tensors."""
    return lambda leaf: function(*map(leaf, call.tensors))


def errors_of(ours, theirs, each):
    """Of each element: its distance relative to max(1, the largest finite value), or with each to 1 + its own size. Of
    what has no distance, and of unequal whole numbers: infinite."""
    same = (ours == theirs) | (numpy.isnan(ours) & numpy.isnan(theirs))
    if theirs.dtype.kind != "f":
        return numpy.where(same, 0, numpy.inf)
    ours, theirs = ours.astype(numpy.float64), theirs.astype(numpy.float64)
    with numpy.errstate(all="ignore"):
        finite = numpy.abs(theirs[numpy.isfinite(theirs)])
        distance = numpy.abs(ours - theirs) / (1 + numpy.abs(theirs) if each else max(1, finite.max(initial=0)))
    return numpy.where(same, 0, numpy.where(numpy.isnan(distance), numpy.inf, distance))


TITLE = """# Samples of PyTorch's op tests that run here

Written by `build/torch/bin/python tests/worker/python/torch_ops_test.py --write tests/worker/python/op_samples.md
build/release/bin/op_samples` with torch {torch}; not by hand. For each op and dtype: how many of the samples
that PyTorch has for the processor ran, interpreted and compiled, of how many; why the others were left out,
and in which dtypes. "torch:" are samples that PyTorch itself refuses, "refused:" those that the language does.
None of those that ran gave another value or gradient, relative to max(1, the largest value): {bounds}.
The last two columns are those of f32 with 1e4 added to all floats, and with all floats times 1e8: beside torch in f64
their values are no farther off than 1e-05 or twice as far as torch's in f32.
An op fails the test if it runs under half of its samples in a dtype of floats, or in all together. Complex
numbers and `out=` are no samples of these dtypes. What there is by name, and where it differs:
[torch_names.md](../../../worker/tensor/language/torch_names.md).
"""


class Samples:
    """What is sent to the program, and what torch says of it."""

    def __init__(self):
        self.spec, self.data, self.places = [], [], []
        self.left_out = collections.defaultdict(collections.Counter)  # of (name, dtype)

    def add(self, name, dtype, call, results, grads):
        tensors = [tensor.detach().resolve_conj().resolve_neg().contiguous() for tensor in call.tensors]
        specs = [{"dtype": DTYPES[tensor.dtype], "sizes": list(tensor.shape)} for tensor in tensors]
        self.spec.append({"function": call.function, "arguments": call.arguments, "gradients": call.gradients,
                          "symbolic": call.symbolic, "tensors": specs})
        self.data += [bytes_of(tensor) for tensor in tensors]
        shown = [f"{DTYPES[tensor.dtype]}{list(tensor.shape)} {tensor.flatten()[:4].tolist()}" for tensor in tensors]
        self.places.append(((name, dtype), call, results, grads, f"{shown} {call.arguments}"))

    def collect(self, op, name):
        for dtype in TRIED:
            seed()
            for sample in samples_of(op, dtype):
                try:
                    call = checked(CALLS[name](sample))
                    self.add(name, dtype, call, *expected_of(by_op(op, sample), call, op.supports_autograd))
                except LeftOut as why:
                    self.left_out[name, dtype][str(why)] += 1
                except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
                    self.left_out[name, dtype]["torch: " + str(error).split("\n")[0][:60]] += 1

    def collect_far(self, op, name):
        """The place of each has torch's results in f64, and in f32 those that ours may be as far off as."""
        for kind, change in FAR.items():
            seed()
            for sample in samples_of(op, torch.float32):
                try:
                    sample = sample.transform(of_floats(change))
                    call = checked(CALLS[name](sample))
                    call.gradients = False
                    theirs, _ = expected_of(by_op(op, sample), call, False)
                    exact, _ = expected_of(by_op(op, sample.transform(of_floats(torch.Tensor.double))), call, False)
                    self.add(name, kind, call, [(wide if wide.is_floating_point() else own, own)
                                                for wide, own in zip(exact, theirs)], [])
                except LeftOut as why:
                    self.left_out[name, kind][str(why)] += 1
                except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
                    self.left_out[name, kind]["torch: " + str(error).split("\n")[0][:60]] += 1

    def collect_more(self, name):
        seed()
        for call, of in MORE[name]():
            if not callable(of):
                call.gradients = False
            results, grads = expected_of(by_function(of, call), call) if callable(of) else (of, [])
            self.add(name, results[0].dtype, call, results, grads)

    def run(self, program):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "samples.json").write_text(json.dumps(self.spec))
            (folder / "samples.bin").write_bytes(b"".join(self.data))
            subprocess.run([program, folder], check=True)
            return json.loads((folder / "results.json").read_text()), (folder / "results.bin").read_bytes()


class Findings:
    """What the program's results are beside torch's."""

    def __init__(self, samples):
        self.samples = samples
        self.ran = collections.defaultdict(set)  # of (name, dtype)
        self.wrong = collections.defaultdict(list)  # of a name
        # Of a result's dtype, and whether each element's own size counts: the largest error, and its op.
        self.worst = collections.defaultdict(lambda: (0.0, ""))
        self.farthest = collections.defaultdict(lambda: (0.0, ""))  # of a kind of far samples

    def read(self, results, raw):
        start = 0
        for result in results:
            key, *_ = self.samples.places[result["sample"]]
            if result["way"] == "refused":
                self.samples.left_out[key]["refused: " + result["why"].split(": ", 3)[-1].split("[")[0]] += 1
                continue
            array, size = array_of(raw, result["dtype"], int(numpy.prod(result["sizes"], dtype=int)), start)
            start += size
            self.ran[key].add(result["sample"])
            self.compare(result, array.reshape(result["sizes"]))

    def compare(self, result, array):
        (name, kind), call, values, grads, shown = self.samples.places[result["sample"]]
        if kind in FAR:
            error = self.far(name, kind, result, array, values) if call.values else None
            if error:
                self.wrong[name].append(f"{result['way']} value {result['value']} of {kind}, {shown}: {error}")
            return
        ignored, each = False, call.each
        if "value" in result:
            which = f"value {result['value']}"
            theirs = values[result["value"]] if result["value"] < len(values) else None
            error = theirs is None and f"a result more than torch's {len(values)}"
        else:
            which, theirs, error = f"gradient {result['by']}", grads[result["by"]], None
            # A sum of rounded terms of both signs may be as small as their errors.
            if theirs is not None and theirs.dtype in HALVES and theirs.numel() < values[0].numel():
                each = False
            if not call.nan_gradients:
                ignored = numpy.isnan(numbers(values[0]))
        if theirs is not None:
            error = self.differs(name, result, array, theirs, each, ignored if call.values else True)
        if error:
            self.wrong[name].append(f"{result['way']} {which} of {shown}: {error}")

    def differs(self, name, got, ours, expected, each, ignored):
        """What is wrong with the array, but for the places ignored; nothing: None."""
        dtype = DTYPES.get(expected.dtype)
        if dtype != got["dtype"] or list(expected.shape) != got["sizes"]:
            return f"{got['dtype']}{got['sizes']} for {dtype}{list(expected.shape)}"
        theirs = numbers(expected.resolve_neg().contiguous())
        for own_size, bounds in ((False, BOUNDS), (True, EACH_BOUNDS))[:2 if each else 1]:
            errors = numpy.where(ignored, 0, errors_of(ours, theirs, own_size))
            key = expected.dtype, own_size
            self.worst[key] = max(self.worst[key], (errors.max(initial=0), name))
            far = errors > bounds.get(expected.dtype, 0)
            if far.any():
                at = tuple(numpy.argwhere(far)[0])
                return f"{ours[at]} for {theirs[at]} at {at}, of {far.sum()} of {far.size}"
        return None

    def far(self, name, kind, got, ours, values):
        """What is wrong with the result of a far sample: farther from f64 than twice torch's f32 is."""
        if got["value"] >= len(values):
            return f"a result more than torch's {len(values)}"
        exact, theirs = (numbers(value.resolve_neg().contiguous()) for value in values[got["value"]])
        if DTYPES.get(values[got["value"]][1].dtype) != got["dtype"] or list(theirs.shape) != got["sizes"]:
            return f"{got['dtype']}{got['sizes']} for {list(theirs.shape)}"
        known = numpy.isfinite(theirs) if theirs.dtype.kind == "f" else True  # else torch's overflowed, or is none
        mine, torchs = (numpy.where(known, errors_of(array, exact, False), 0) for array in (ours, theirs))
        allowed = max(2 * torchs.max(initial=0), BOUNDS[torch.float32])
        worst = mine.max(initial=0)
        self.farthest[kind] = max(self.farthest[kind], (worst, name))
        if not worst <= allowed:
            at = tuple(numpy.argwhere(mine == worst)[0])
            return f"{ours[at]} for {exact[at]} at {at}, where torch's f32 has {theirs[at]}: {worst:.1e} > {allowed:.1e}"
        return None

    def of(self, name, dtype):
        """How many samples ran, and of how many."""
        ran = len(self.ran[name, dtype])
        return ran, ran + self.samples.left_out[name, dtype].total()

    def show(self, names):
        """Prints the table; returns the ops of which too few ran."""
        few = []
        dtypes = "".join(f"{dtype:>11}" for dtype in COLUMNS.values())
        print(f"{'op, samples run of those there are':40}{dtypes}  wrong")
        for name in names:
            counts = [self.of(name, dtype) for dtype in COLUMNS]
            few += [f"{name} in {DTYPES[dtype]}" for dtype, (ran, there) in zip(TRIED, counts)
                    if dtype.is_floating_point and 2 * ran < there]
            if sum(ran for ran, _ in counts) <= sum(there for _, there in counts) / 2:
                few.append(f"{name} in all dtypes together")
            print(f"{name:40}" + "".join(f"{f'{ran}/{there}' if there else '-':>11}" for ran, there in counts) +
                  f"{len(self.wrong[name]):7}")
            for line in self.reasons(name) + self.wrong[name][:4]:
                print("    " + line[:300])
        return few

    def reasons(self, name):
        """Why samples were left out, with the dtypes where it happened."""
        counts, dtypes = collections.Counter(), collections.defaultdict(list)
        for dtype, column in COLUMNS.items():
            for reason, count in self.samples.left_out[name, dtype].items():
                counts[reason] += count
                dtypes[reason].append(column)
        return [f"left out: {count} {reason} ({', '.join(dtypes[reason])})" for reason, count in counts.most_common()]

    def written(self, names, kept):
        """The table for readers. It has counts and reasons, which are the same in every run, but no times and errors.
        `kept`: rows of other ops."""
        dtypes = list(COLUMNS.values())
        yield TITLE.format(torch=torch.__version__.split("+")[0], bounds=", ".join(
            f"{DTYPES[dtype]} {bound:.0e}" for dtype, bound in BOUNDS.items()))
        yield f"| op | {' | '.join(dtypes)} | left out |"
        yield "|---" * (len(dtypes) + 2) + "|"
        total = collections.Counter()
        for name in [*CALLS, *MORE]:
            row = self.row(name) if name in names else kept.get(name)
            if row:
                yield row
                for ran, there in re.findall(r" (\d+)/(\d+) (?=\|)", row):
                    total.update(ran=int(ran), there=int(there))
        yield f"\n{total['ran']} of {total['there']} samples ran."

    def row(self, name):
        counts = [self.of(name, dtype) for dtype in COLUMNS]
        cells = [f"{ran}/{there}" if there else "" for ran, there in counts]
        reasons = [reason.removeprefix("left out: ").replace("|", "\\|") for reason in self.reasons(name)]
        return f"| `{name}` | {' | '.join(cells)} | {'; '.join(reasons)} |"

    def show_dtypes(self, names):
        for dtype in TRIED:
            counts = [self.of(name, dtype) for name in names]
            line = f"{DTYPES[dtype]:5} {sum(ran for ran, _ in counts)} of {sum(there for _, there in counts)} samples"
            for each, bounds in ((False, BOUNDS), (True, EACH_BOUNDS)):
                if dtype in bounds and (dtype, each) in self.worst:
                    error, op = self.worst[dtype, each]
                    line += f"; worst {'of each element ' if each else ''}{error:.1e} ({op}), bound {bounds[dtype]:.0e}"
            print(line)
        for kind, (error, op) in self.farthest.items():
            print(f"f32, {kind}: farthest from f64 {error:.1e} ({op})")


def collected(chosen):
    samples = Samples()
    for op in [*op_db, *hop_db]:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if name in CALLS and (not chosen or name in chosen):
            samples.collect(op, name)
            samples.collect_far(op, name)
    for name in MORE:
        if not chosen or name in chosen:
            samples.collect_more(name)
    return samples


def write_calls(samples, file):
    """Of each function the sample with the fewest elements of those that have most arguments and no size of 0 or 1."""
    def order(spec):
        sizes = [size for tensor in spec["tensors"] for size in tensor["sizes"]]
        few = sum(size < 2 for size in sizes) + 2 * sum(not tensor["sizes"] for tensor in spec["tensors"])
        return (few, -len(spec["tensors"]), -len(json.dumps(spec["arguments"])), sum(sizes))
    best = {}
    for spec in samples.spec:
        best[spec["function"]] = min(best.get(spec["function"], spec), spec, key=order)
    lines = (json.dumps({key: spec[key] for key in ("function", "arguments", "tensors")}) for _, spec in sorted(best.items()))
    pathlib.Path(file).write_text("[" + ",\n ".join(lines) + "]\n")
    return 0


def main(program, *chosen, file=None, calls=None):
    start = time.monotonic()
    samples = collected(chosen)
    if calls:
        return write_calls(samples, calls)
    middle = time.monotonic()
    findings = Findings(samples)
    findings.read(*samples.run(program))
    names = [name for name in [*CALLS, *MORE] if not chosen or name in chosen]
    few = findings.show(names)
    findings.show_dtypes(names)
    total = sum(map(len, findings.wrong.values()))
    if file and not total:
        table = pathlib.Path(file)
        kept = re.findall(r"^(\| `(.*?)` .*)$", table.read_text(), re.MULTILINE) if chosen else []
        table.write_text("\n".join(findings.written(names, {name: row for row, name in kept})) + "\n")
    print(f"{sum(map(len, findings.ran.values()))} samples, {total} wrong values; torch's side took "
          f"{middle - start:.0f} s, ours and the comparison {time.monotonic() - middle:.0f} s")
    if few:
        print("under half of the samples ran:", "; ".join(few))
    return 1 if total or few else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    options = {"--write": "file", "--calls": "calls"}
    option = options.get(arguments[0])
    sys.exit(main(*arguments[2 if option else 0:], **({option: arguments[1]} if option else {})))
