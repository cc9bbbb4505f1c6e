"""Control flow: see ops_call.py. torch has one sample of each of its higher-order ops (hop_db); beside them these are
compared with an `if` and with loops of Python's, gradients by torch's autograd."""

import itertools

import torch
from ops_call import Call, arguments_of


def cond(sample):
    arguments_of(sample)
    return Call("cond", [sample.input], [2])


def scan(sample):
    (rows,) = arguments_of(sample, "xs")
    return Call("scan", [sample.input, rows], gradients=False)  # torch's test says that it has none; see MORE


def while_loop(sample):
    (x,) = arguments_of(sample, "x")
    return Call("while_loop", [sample.input, x], gradients=False)


CALLS = {"cond.simple": cond, "scan.simple": scan, "while_loop.simple": while_loop}

FLOATS = torch.float64, torch.float32


def drawn(seed, dtype, *sizes):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, dtype=dtype, generator=generator) for size in sizes]


def branches():
    for dtype, size, way in itertools.product(FLOATS, (0, 1, 5), (False, True)):
        x, weight = drawn(11, dtype, (size,), (size,))

        def both(x, weight, way):
            return [torch.tanh(x * weight), x + 1] if way else [torch.exp(x) * weight, x * weight]
        yield Call("cond_with_weight", [x, weight, torch.tensor(way)]), both


def recurrences():
    def by_loop(h, rows, weight):
        each = []
        for row in rows:
            h = torch.tanh(weight @ h + row)
            each.append(h * row)
        return [h, torch.stack(each) if each else rows * 0]
    for dtype, trips, size in itertools.product(FLOATS, (0, 1, 2, 6), (1, 3)):
        yield Call("recurrence", drawn(12, dtype, (size,), (trips, size), (size, size))), by_loop


def roots():
    def by_loop(x):
        y, trips = torch.ones_like(x), 0
        while (y * y - x).abs().max() > 1e-9 and trips < 50:
            y, trips = (y + x / y) * 0.5, trips + 1
        return [y, torch.tensor(trips)]
    for values in ([1.0], [2.0, 9.0], [0.25, 1e4, 3.0]):
        x = torch.tensor(values, dtype=torch.float64)
        yield Call("roots", [x], gradients=False), by_loop(x)


MORE = {"cond, by an if": branches, "scan, by a loop": recurrences, "while_loop, by a loop": roots}
