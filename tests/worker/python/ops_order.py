"""Reductions of more than a sum, scans and order: see ops_call.py."""

import functools

import torch
from ops_call import Call, LeftOut, arguments_of


def listed(dims):
    return [] if dims is None else [dims] if isinstance(dims, int) else list(dims)


def plain(value):
    """A number that may stand in JSON."""
    if type(value) not in (int, float):
        raise LeftOut("an argument that is no real number")
    return value


def no_dtype(values):
    *values, dtype = values
    if dtype is not None:
        raise LeftOut("argument dtype")
    return values


def reduction(function, sample):
    dims, keep = no_dtype(arguments_of(sample, dim=None, keepdim=False, dtype=None))
    return Call(function, [sample.input], [listed(dims), bool(keep)])


def spread(function, sample):
    arguments = list(sample.args)
    biased = arguments.pop(0) if arguments and isinstance(arguments[0], bool) else None
    dims, keep, correction, unbiased = arguments_of(
        type(sample)(sample.input, args=tuple(arguments), kwargs=sample.kwargs), dim=None, keepdim=False, correction=None,
        unbiased=biased)
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    count = 1
    for dim in listed(dims) or range(sample.input.ndim):
        count *= sample.input.shape[dim]
    # Where there are no degrees of freedom torch's gradient is infinite to both sides.
    return Call(function, [sample.input], [listed(dims), plain(correction), bool(keep)], gradients=count > correction)


def vector_norm(sample):
    order, dims, keep = no_dtype(arguments_of(sample, ord=2, dim=None, keepdim=False, dtype=None))
    return Call("norm", [sample.input], [str(plain(order)), listed(dims), keep])


def norm(sample):
    order, dims, keep = no_dtype(arguments_of(sample, p="fro", dim=None, keepdim=False, dtype=None))
    if order == "nuc":
        raise LeftOut("the nuclear norm")
    order = 2 if order in ("fro", None) else plain(order)
    return Call("norm", [sample.input], [str(order), listed(dims), keep])


def argmin(sample):
    dim, keep = arguments_of(sample, dim=None, keepdim=False)
    if dim is None and keep:
        raise LeftOut("all dims, kept")
    return Call("argmin", [sample.input], [dim, keep])


def along(function, sample):
    (dim,) = no_dtype(arguments_of(sample, "dim", dtype=None))
    # Gradients of logcumsumexp are exponentials of differences of its values: at values of 10,000 neither torch's nor
    # these come nearer than an f64's last place there, 1.8e-12.
    rounded = function == "logcumsumexp" and sample.input.dtype == torch.float64 and sample.input.abs().gt(1000).any()
    return Call(function, [sample.input], [dim], gradients=not rounded, each=function == "logcumsumexp")


def difference(sample):
    times, dim, before, after = arguments_of(sample, n=1, dim=-1, prepend=None, append=None)
    if times == 0:  # torch's is the input alone
        before = after = None
    return Call("diff", [part for part in (before, sample.input, after) if part is not None], [times, dim])


def flip(sample):
    (dims,) = arguments_of(sample, "dims")
    return Call("flip", [sample.input], [listed(dims)])


def has_ties(tensor, dim):
    """Places of equal elements are torch's own where it is not asked for a stable order."""
    if tensor.numel() == 0 or tensor.ndim == 0:
        return False
    ordered = tensor.sort(dim=dim).values
    return bool((ordered.diff(dim=dim) == 0).any())


def taken(function, sample, arguments, dim, stable=False):
    """Values and indices, or where torch may name others of equal elements values alone."""
    ties = not stable and has_ties(sample.input, dim)
    results = (lambda value: [value[0]]) if ties else list
    return Call(function, [sample.input], [*arguments, ties], results=results)


def sort(sample):
    dim, descending, stable = arguments_of(sample, dim=-1, descending=False, stable=None)
    return taken("sort", sample, [dim, descending], dim, stable)


def argsort(sample):
    dim, descending, stable = arguments_of(sample, dim=-1, descending=False, stable=False)
    if not stable and has_ties(sample.input, dim):
        raise LeftOut("ties in an order that is not stable")
    return Call("argsort", [sample.input], [dim, descending])


def topk(sample):
    count, dim, largest, ordered = arguments_of(sample, "k", dim=-1, largest=True, sorted=True)
    if not ordered:
        raise LeftOut("in no order")
    return taken("topk", sample, [count, dim, largest], dim)


def kthvalue(sample):
    count, dim, keep = arguments_of(sample, "k", dim=-1, keepdim=False)
    return taken("kthvalue", sample, [count, dim, keep], dim)


def median(sample):
    dim, keep = arguments_of(sample, dim=None, keepdim=False)
    if dim is None:
        return Call("median", [sample.input], [None])
    return taken("median", sample, [dim, keep], dim)


def as_i64(value):
    return [value.to(torch.int64)]


def searchsorted(sample):
    values, _, right, side, order = arguments_of(sample, "input", out_int32=False, right=False, side=None, sorter=None)
    if not isinstance(values, torch.Tensor) or values.dtype != sample.input.dtype:
        raise LeftOut("a number, or dtypes that differ")
    ordered = sample.input if order is None else sample.input.gather(-1, order)
    return Call("searchsorted", [ordered, values], [bool(right or side == "right")], results=as_i64, gradients=False)


def bucketize(sample):
    boundaries, _, right = arguments_of(sample, "boundaries", out_int32=False, right=False)
    if not isinstance(sample.input, torch.Tensor) or boundaries.dtype != sample.input.dtype:
        raise LeftOut("a number, or dtypes that differ")
    return Call("bucketize", [sample.input, boundaries], [right], results=as_i64, gradients=False)


def bincount(sample):
    weights, least = arguments_of(sample, weights=None, minlength=0)
    length = None
    if least:
        length = max(least, int(sample.input.max()) + 1 if sample.input.numel() else 0)
    tensors = [sample.input] if weights is None else [sample.input, weights]
    return Call("bincount", tensors, [length])


CALLS = {name: functools.partial(reduction, name) for name in ("prod", "count_nonzero")}
CALLS |= {name: functools.partial(spread, ours) for name, ours in {
    "var": "var", "var.unbiased": "var", "std": "stddev", "std.unbiased": "stddev", "var_mean": "var_mean",
    "var_mean.unbiased": "var_mean", "std_mean": "std_mean", "std_mean.unbiased": "std_mean"}.items()}
CALLS |= {name: functools.partial(along, name) for name in (
    "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")}
CALLS |= {"linalg.vector_norm": vector_norm, "norm": norm, "norm.fro": norm, "norm.inf": norm, "argmin": argmin,
          "diff": difference, "flip": flip, "sort": sort, "argsort": argsort, "topk": topk, "kthvalue": kthvalue,
          "median": median, "searchsorted": searchsorted, "bucketize": bucketize, "bincount": bincount}
