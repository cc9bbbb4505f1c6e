"""Random numbers: see ops_call.py. No generator of torch's gives the bits of ours, so only sizes and dtypes are compared,
and values where they are certain: probabilities 0 and 1, deviation 0, one weight of all. Distributions have tests of their
own (tests/worker/trace/random_distribution_test.cpp)."""

import functools
import itertools

import torch
from ops_call import DTYPES, Call, LeftOut, arguments_of

KEY = torch.tensor(12345)


def sized(*sizes):
    return torch.zeros(sizes, dtype=torch.bool)


def drawn(function, tensors, arguments=(), **more):
    return Call(function, [*tensors, KEY], list(arguments), values=more.pop("values", False), gradients=False, **more)


def name_of(dtype):
    if dtype not in DTYPES:
        raise LeftOut("dtype")
    return DTYPES[dtype]


def uniform(sample):
    low, high = arguments_of(sample, **{"from": 0, "to": 1})
    return drawn("uniform", [sized(*sample.input.shape)], [low, high, name_of(sample.input.dtype)])


def normal_in_place(sample):
    mean, deviation = arguments_of(sample, mean=0, std=1)
    return drawn("normal", [sized(*sample.input.shape)], [mean, deviation, name_of(sample.input.dtype)])


def like(function, sample):
    dtype, *_ = arguments_of(sample, dtype=None, device=None, requires_grad=False, layout=None)
    shape = sample.input.shape if isinstance(sample.input, torch.Tensor) else sample.input
    dtype = dtype or (sample.input.dtype if isinstance(sample.input, torch.Tensor) else torch.get_default_dtype())
    return drawn(function, [sized(*shape)], [0, 1, name_of(dtype)])


def normal(sample):
    """Of numbers or tensors, which broadcast."""
    values = [sample.input, *sample.args]
    named = dict(sample.kwargs)
    mean, deviation = values[:2]
    tensors = [value for value in (mean, deviation) if isinstance(value, torch.Tensor)]
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise LeftOut("dtypes that differ")
    sizes = torch.broadcast_shapes(*(tensor.shape for tensor in tensors)) if tensors else values[2]
    dtype = tensors[0].dtype if tensors else named.get("dtype") or torch.get_default_dtype()
    numbers = [None if isinstance(value, torch.Tensor) else value for value in (mean, deviation)]
    return drawn("normal", [sized(*sizes), *tensors], [*numbers, name_of(dtype)])


def bernoulli(sample):
    arguments_of(sample)
    return drawn("bernoulli", [sample.input])


def randint(sample):
    """High, or low and high; the sizes are the last."""
    *bounds, sizes = [sample.input, *sample.args]
    dtype = sample.kwargs.get("dtype") or torch.int64
    return drawn("randint", [sized(*sizes)], [*([0] if len(bounds) == 1 else []), *bounds, name_of(dtype)])


def randint_like(sample):
    dtype = sample.kwargs.get("dtype") or sample.input.dtype
    bounds = sample.args
    return drawn("randint", [sized(*sample.input.shape)], [*([0] if len(bounds) == 1 else []), *bounds, name_of(dtype)])


def multinomial(sample):
    count, replacement, *_ = arguments_of(sample, "num_samples", replacement=False, generator=None)
    return drawn("multinomial", [sample.input], [count, replacement])


def dropout(sample):
    """Outside of training nothing is dropped, as by 0. What is kept, and its gradient, are certain of 0 and 1."""
    p, training, _ = arguments_of(sample, p=0.5, training=True, inplace=False)
    p = p if training else 0
    return Call("dropout", [sample.input, KEY], [p], values=p in (0, 1), gradients=p in (0, 1))


CALLS = {"uniform": uniform, "normal.in_place": normal_in_place, "normal": normal, "normal.number_mean": normal,
         "rand_like": functools.partial(like, "uniform"), "randn_like": functools.partial(like, "normal"),
         "randn": functools.partial(like, "normal"), "bernoulli": bernoulli, "randint": randint,
         "randint_like": randint_like, "multinomial": multinomial, "nn.functional.dropout": dropout}

FLOATS = torch.float64, torch.float32, torch.bfloat16, torch.float16


def no_deviation():
    for dtype, sizes in itertools.product(FLOATS, ((), (5,), (2, 0), (3, 4))):
        mean = torch.linspace(-2, 2, sized(*sizes).numel(), dtype=dtype).reshape(sizes)
        yield drawn("normal", [sized(*sizes), mean, torch.zeros_like(mean)], [None, None, DTYPES[dtype]], values=True), [
            torch.normal(mean, torch.zeros_like(mean))]


def never_and_always():
    for dtype, sizes in itertools.product(FLOATS, ((), (6,), (2, 0), (3, 4))):
        p = (torch.arange(sized(*sizes).numel()) % 3 == 0).to(dtype).reshape(sizes)
        yield drawn("bernoulli", [p], values=True), [torch.bernoulli(p)]


def one_weight():
    for dtype, place, replacement in itertools.product(FLOATS, range(4), (False, True)):
        weights = torch.nn.functional.one_hot(torch.tensor([place, 3 - place]), 4).to(dtype)
        count = 3 if replacement else 1
        yield drawn("multinomial", [weights], [count, replacement], values=True), [
            torch.multinomial(weights, count, replacement)]


def one_number():
    for low, sizes in itertools.product((-3, 0, 2**40), ((), (5,), (2, 3))):
        yield drawn("randint", [sized(*sizes)], [low, low + 1, "i64"], values=True), [torch.randint(low, low + 1, sizes)]


def orders():
    """The places of a permutation in order are those of its inverse."""
    for n in (0, 1, 2, 7):
        yield drawn("permutation", [sized(n)]), [torch.randperm(n), torch.randperm(n)]


MORE = {"normal, deviation 0": no_deviation, "bernoulli, probability 0 or 1": never_and_always,
        "multinomial, one weight": one_weight, "randint, one number": one_number, "randperm": orders}
