"""How far sums, scans, norms and losses of f32 are off, ours and PyTorch's, on data that is hard to add up: a table. Both
are beside torch in f64 on the same numbers, relative to the largest value of the result. Fails where ours is off by more
than 2^-22 and more than twice as far as torch.
torch_errors_test.py [--write FILE] PROGRAM; PROGRAM is the built op_samples, FILE gets the table (op_errors.md)."""

import collections
import pathlib
import sys
import warnings

import torch
from ops_families import CALLS
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput
from torch_ops_test import Samples, array_of, by_op, expected_of, numbers

warnings.filterwarnings("ignore")
UNIT = 2.0 ** -22  # of two roundings


def random(n):
    return torch.randn(n)


def far(n):
    return torch.randn(n) + 1e4


def equal(n):
    return torch.full((n,), 123.456)


def alternating(n):
    return (torch.rand(n) + 1) * (1 - 2 * (torch.arange(n) % 2))


def one_large(n):
    return torch.cat([torch.tensor([1e7]), torch.rand(n - 1)])


def large(n):
    return torch.randn(n) * 1e15


def denormals(n):
    return torch.rand(n) * 1e-38


DATA = (random, far, equal, alternating, one_large, large, denormals)
ROWS, COLUMNS = (100, 4096), (10_000_000,)  # sizes: many rows, and one long one
# torch's name, sizes, and the arguments behind the input for those sizes.
OPS = (("sum", COLUMNS, lambda x: (0,)), ("mean", COLUMNS, lambda x: (0,)), ("sum", ROWS, lambda x: (0,)),
       ("mean", ROWS, lambda x: (1,)), ("prod", ROWS, lambda x: (1,)), ("cumsum", COLUMNS, lambda x: (0,)),
       ("cumsum", ROWS, lambda x: (1,)), ("cumprod", ROWS, lambda x: (1,)), ("logcumsumexp", ROWS, lambda x: (1,)),
       ("var", ROWS, lambda x: (1,)), ("std", ROWS, lambda x: (1,)), ("linalg.vector_norm", ROWS, lambda x: (2, 1)),
       ("logsumexp", ROWS, lambda x: (1,)), ("softmax", ROWS, lambda x: (1,)), ("log_softmax", ROWS, lambda x: (1,)),
       ("nn.functional.layer_norm", ROWS, lambda x: ((ROWS[1],),)),
       ("nn.functional.rms_norm", ROWS, lambda x: ((ROWS[1],),)),
       ("nn.functional.mse_loss", COLUMNS, lambda x: (x.flip(0),)),
       ("nn.functional.cross_entropy", ROWS, lambda x: (torch.arange(ROWS[0]),)),
       ("index_add", COLUMNS, lambda x: (0, torch.arange(x.numel()) % 3, x)),
       ("matmul", ROWS, lambda x: (x.T[:, :4].contiguous(),)))

TITLE = """# How far results in f32 are off, ours and PyTorch's

Written by `build/torch/bin/python tests/worker/python/torch_errors_test.py --write tests/worker/python/op_errors.md
build/release/bin/op_samples` with torch {torch}; not by hand. The largest distance from torch's result in f64 on the
same numbers, relative to the largest value there: ours / PyTorch's, in units of 2^-24, the most that one rounding is off
("inf": not finite where f64's fits f32). Data: random (mean 0, deviation 1), far (mean 10,000), equal (123.456),
alternating (signs), one_large (10,000,000 among numbers below 1), large (times 1e15), denormals (below 1e-38).
[One written order](../../../worker/compile/sums/README.md) gives ours on every target; PyTorch's depend on the processor and the
number of threads (1 here).
"""


def rounded_once(error):
    return "inf" if error == float("inf") else f"{error * 2 ** 24:.2g}"


def error_of(got, exact):
    """Relative to the largest of `exact`; infinite where a value is not finite that should be."""
    fits = exact.abs() <= torch.finfo(torch.float32).max
    if not fits.any():
        return 0.0
    got, exact = got.double()[fits], exact[fits]
    if not got.isfinite().all():
        return float("inf")
    return ((got - exact).abs().max() / exact.abs().max().clamp(min=torch.finfo(torch.float32).tiny)).item()


def collected():
    """The samples, and what row and column of the table each is of."""
    ops = {op.name + ("." + op.variant_test_name if op.variant_test_name else ""): op for op in op_db}
    samples, places = Samples(), []
    for name, sizes, arguments in OPS:
        for data in DATA:
            torch.manual_seed(1)
            x = data(torch.Size(sizes).numel()).reshape(sizes)
            sample = SampleInput(torch.zeros(3) if name == "index_add" else x, args=arguments(x))
            call = CALLS[name](sample)
            call.gradients = False
            wide = sample.transform(lambda t: t.double() if t.is_floating_point() else t)
            exact, _ = expected_of(by_op(ops[name], wide), call, False)
            theirs, _ = expected_of(by_op(ops[name], sample), call, False)
            samples.add(name, data.__name__, call, theirs, [])
            places.append((f"{name} {list(sizes)}", data.__name__, exact[0], theirs[0]))
    return samples, places


def main(program, file=None):
    torch.set_num_threads(1)
    samples, places = collected()
    results, raw = samples.run(program)
    table, wrong, start = collections.defaultdict(dict), [], 0
    for result in results:
        row, column, exact, theirs = places[result["sample"]]
        if result["way"] == "refused":
            wrong.append(f"{row} of {column}: {result['why']}")
            continue
        array, size = array_of(raw, result["dtype"], theirs.numel(), start)
        start += size
        ours = error_of(torch.from_numpy(array.copy()).reshape(theirs.shape), exact)
        torchs = error_of(theirs, exact)
        table[row][column] = max(table[row].get(column, (0, 0)), (ours, torchs))
        if not (ours <= UNIT or ours <= 2 * torchs):
            wrong.append(f"{row} of {column}, {result['way']}: {rounded_once(ours)}, torch {rounded_once(torchs)}")
    names = [data.__name__ for data in DATA]
    lines = [TITLE.format(torch=torch.__version__.split("+")[0]), f"| op of sizes | {' | '.join(names)} |",
             "|---" * (len(names) + 1) + "|"]
    for row, cells in table.items():
        lines.append(f"| {row} | " + " | ".join(" / ".join(map(rounded_once, cells[name])) for name in names) + " |")
    print("\n".join(lines + wrong))
    if file and not wrong:
        pathlib.Path(file).write_text("\n".join(lines) + "\n")
    print(f"{len(results)} results, {len(wrong)} too far off")
    return 1 if wrong or not results else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(given[2], given[1]) if given[0] == "--write" else main(given[0]))
