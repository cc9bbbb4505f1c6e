"""Reductions, views, and what chooses elements: see ops_call.py."""

import functools

import torch
from ops_call import Call, LeftOut, arguments_of


def need(condition, why):
    if not condition:
        raise LeftOut(why)


def dims_of(dim):
    return [] if dim is None else list(dim) if isinstance(dim, (tuple, list)) else [dim]


def reduction(name, sample):
    dim, keep = arguments_of(sample, dim=None, keepdim=False)
    need(name not in ("any", "all") or sample.input.dtype != torch.uint8, "bools that torch gives as u8")
    need(dim != () and dim != [], "no dims at all, which torch takes as all")
    return Call(name, [sample.input], [dims_of(dim), keep], gradients=name not in ("any", "all"))


def argmax(sample):
    dim, keep = arguments_of(sample, dim=None, keepdim=False)
    need(dim is not None or not keep, "all dims kept")
    return Call("argmax", [sample.input], [dim, keep], gradients=False)


def along(name, sample):
    dim, dtype = arguments_of(sample, dim=None, dtype=None)
    need(dtype is None, "dtype, which is one more cast()")
    return Call(name, [sample.input], [dim])


def logsumexp(sample):
    dim, keep = arguments_of(sample, dim=None, keepdim=False)
    return Call("logsumexp", [sample.input], [dims_of(dim), keep])


def sized(name, sample):
    """A list of numbers, or numbers."""
    need(not sample.kwargs, "arguments by name")
    sizes = sample.args[0] if len(sample.args) == 1 and not isinstance(sample.args[0], int) else sample.args
    need(all(isinstance(size, int) for size in sizes), "an argument that is no list of numbers")
    return Call(name, [sample.input], [list(sizes)])


def numbered(name, *names):
    def call(sample):
        return Call(name, [sample.input], list(arguments_of(sample, *names)))
    return call


def squeeze(sample):
    (dim,) = arguments_of(sample, dim=None)
    need(dim is None or isinstance(dim, int), "several dims")
    need(dim is None or sample.input.dim() > 0 and sample.input.size(dim) == 1, "a dim that stays because it is not 1")
    return Call("squeeze", [sample.input], [dim])


def cat(sample):
    (dim,) = arguments_of(sample, dim=0)
    tensors = list(sample.input)
    need(len({tensor.dtype for tensor in tensors}) == 1, "dtypes that differ")
    need(len({tensor.dim() for tensor in tensors}) == 1, "an empty vector that torch leaves out")
    return Call("cat", tensors, [dim])


def split(sample):
    size, dim = arguments_of(sample, "split_size", dim=0)
    total = sample.input.size(dim)
    sizes = list(size) if not isinstance(size, int) else [min(size, total - at) for at in range(0, total, size)]
    return Call("split", [sample.input], [sizes, dim])


def pad(sample):
    counts, mode, value = arguments_of(sample, "pad", mode="constant", value=None)
    return Call("pad", [sample.input], [list(counts), float(value or 0)])


def where(sample):
    condition, other = arguments_of(sample, "condition", "other")
    need(isinstance(sample.input, torch.Tensor) and isinstance(other, torch.Tensor), "a number of another dtype")
    need(sample.input.dtype == other.dtype, "dtypes that differ")
    return Call("where", [condition, sample.input, other])


def masked_select(sample):
    (mask,) = arguments_of(sample, "mask")
    return Call("masked_select", [sample.input, mask])


def nonzero(sample):
    (as_tuple,) = arguments_of(sample, as_tuple=False)
    need(not as_tuple or sample.input.dim() > 0, "a number, which torch takes as a vector in a tuple")
    joined = (lambda value: [torch.stack(value, 1)]) if as_tuple else (lambda value: [value])
    return Call("nonzero", [sample.input], gradients=False, results=joined)


def argwhere(sample):
    arguments_of(sample)
    return Call("nonzero", [sample.input], gradients=False)


def unique(sample):
    """The whole of it; along the dim of a vector it is the same."""
    _, inverse, counts, dim = arguments_of(sample, sorted=True, return_inverse=False, return_counts=False, dim=None)
    rows = dim is not None and sample.input.dim() > 1
    need(not rows or sample.input.numel() <= 10 * sample.input.size(dim), "rows of over 10 elements, each of which is sorted by")
    return Call("unique", [sample.input], [inverse, counts, dim if rows else None], gradients=False, symbolic=not rows)


def repeat_interleave(sample):
    repeats, dim, size = arguments_of(sample, "repeats", dim=None, output_size=None)
    if isinstance(repeats, torch.Tensor):
        return Call("repeat_interleave", [sample.input, repeats], [dim, None])
    return Call("repeat_interleave", [sample.input], [dim, repeats])


CALLS = {name: functools.partial(reduction, name) for name in ("sum", "mean", "amax", "amin", "any", "all")}
CALLS |= {name: functools.partial(along, name) for name in ("softmax", "log_softmax")}
CALLS |= {name: functools.partial(sized, name) for name in ("reshape", "permute", "expand")}
CALLS |= {"argmax": argmax, "logsumexp": logsumexp, "transpose": numbered("transpose", "dim0", "dim1"),
          "unsqueeze": numbered("unsqueeze", "dim"), "squeeze": squeeze, "cat": cat, "split": split,
          "split.list_args": split, "nn.functional.pad.constant": pad, "where": where, "masked_select": masked_select,
          "nonzero": nonzero, "argwhere": argwhere, "unique": unique, "repeat_interleave": repeat_interleave}
