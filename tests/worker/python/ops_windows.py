"""Convolutions and pools: see ops_call.py."""

import itertools
import math

import torch
from ops_call import Call, LeftOut, arguments_of


def numbers(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def convolution(function):
    def call(sample):
        weight, bias, stride, padding, dilation, groups = arguments_of(
            sample, "weight", bias=None, stride=1, padding=0, dilation=1, groups=1)
        padding = [0] if padding == "valid" else padding if padding == "same" else numbers(padding)
        tensors = [sample.input, weight] + ([] if bias is None else [bias])
        return Call(function, tensors, [numbers(stride), padding, numbers(dilation), groups])
    return call


def max_pool(function):
    def call(sample):
        kernel, stride, padding, dilation, ceil, indices = arguments_of(
            sample, "kernel_size", stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
        if 0 in sample.input.shape[-1:]:
            raise LeftOut("no windows")
        options = [numbers(kernel), [] if stride is None else numbers(stride), numbers(padding), numbers(dilation), ceil,
                   True, None]
        return Call(function + ("_with_indices" if indices else ""), [sample.input], options)
    return call


def avg_pool(function):
    def call(sample):
        kernel, stride, padding, ceil, include, divisor = arguments_of(
            sample, "kernel_size", stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)
        return Call(function, [sample.input], [
            numbers(kernel), [] if stride is None else numbers(stride), numbers(padding), [1], ceil, include, divisor])
    return call


def adaptive(function, dims):
    def call(sample):
        size, indices = arguments_of(sample, "output_size", return_indices=False)
        sizes = [-1 if one is None else one for one in numbers(size)]
        return Call(function, [sample.input], [sizes[0] if dims == 1 else sizes],
                    results=lambda value: [value[0] if indices else value])  # there are no indices here
    return call


def unfold(sample):
    return Call("unfold", [sample.input], arguments_of(sample, "dimension", "size", "step"))


def pairs(*values):
    return [list(value) if isinstance(value, (tuple, list)) else [value, value] for value in values]


def columns(sample):
    kernel, dilation, padding, stride = arguments_of(sample, "kernel_size", dilation=1, padding=0, stride=1)
    return Call("columns", [sample.input], pairs(kernel, dilation, padding, stride))


CALLS = {"nn.functional." + name: call for name, call in {
    "unfold": columns,
    "conv1d": convolution("conv1d"), "conv2d": convolution("conv2d"), "max_pool1d": max_pool("max_pool1d"),
    "max_pool2d": max_pool("max_pool2d"), "avg_pool1d": avg_pool("avg_pool1d"), "avg_pool2d": avg_pool("avg_pool2d"),
    "adaptive_avg_pool1d": adaptive("adaptive_avg_pool1d", 1), "adaptive_avg_pool2d": adaptive("adaptive_avg_pool2d", 2),
    "adaptive_max_pool1d": adaptive("adaptive_max_pool1d", 1),
    "adaptive_max_pool2d": adaptive("adaptive_max_pool2d", 2)}.items()}
CALLS["unfold"] = unfold


def folded():
    """Columns as nn.functional.unfold gives them, added up where they overlap."""
    generator = torch.Generator().manual_seed(8)
    for dtype, batch, (sizes, kernel, dilation, padding, stride) in itertools.product(
            (torch.float64, torch.float32, torch.bfloat16, torch.float16), ([], [0], [1], [2]), (
                ((4, 5), (2, 2), (1, 1), (0, 0), (1, 1)), ((4, 5), (3, 2), (1, 2), (1, 0), (2, 1)),
                ((1, 1), (1, 1), (1, 1), (0, 0), (1, 1)), ((6, 7), (2, 3), (2, 1), (1, 2), (3, 2)),
                ((5, 2), (5, 2), (1, 1), (0, 0), (1, 1)))):
        windows = math.prod((size + 2 * pad - by * (one - 1) - 1) // step + 1 for size, one, by, pad, step in zip(
            sizes, kernel, dilation, padding, stride))
        x = torch.randn(*batch, 3 * math.prod(kernel), windows, dtype=dtype, generator=generator)
        options = sizes, kernel, dilation, padding, stride

        def fold(x, options=options):
            return [torch.nn.functional.fold(x, *options)]
        yield Call("fold_columns", [x], pairs(*options)), fold


MORE = {"nn.functional.fold": folded}
