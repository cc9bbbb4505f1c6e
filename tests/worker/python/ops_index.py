"""Ops by indices and masks, and where elements stand: see ops_call.py."""

import torch
from ops_call import Call, LeftOut, arguments_of


def real(value):
    if isinstance(value, torch.Tensor):
        return value
    if type(value) not in (int, float, bool):
        raise LeftOut("an argument that is no real number")
    return value


def integers(value):
    return [int(item) for item in (value if isinstance(value, (tuple, list, torch.Size)) else [value])]


def given(*tensors):
    """Tensors of the sample."""
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise LeftOut("a number in place of a tensor")
    return list(tensors)


def index_of(tensor):
    if not isinstance(tensor, torch.Tensor) or tensor.dtype not in (torch.int64, torch.int32):
        raise LeftOut("indices that are neither i64 nor i32")
    return tensor


def has_equal_ones(index, dim):
    """Whether two elements of the index meet: then torch gives the gradient of the one that wins to all."""
    if index.dim() == 0 or index.numel() == 0:
        return False
    ordered = index.sort(dim).values
    return bool((ordered.narrow(dim, 1, ordered.size(dim) - 1) == ordered.narrow(dim, 0, ordered.size(dim) - 1)).any())


def gather(sample):
    dim, index, _ = arguments_of(sample, "dim", "index", sparse_grad=False)
    return Call("gather", given(sample.input, index_of(index)), [dim])


def take_along_dim(sample):
    index, dim = arguments_of(sample, "indices", dim=None)
    if dim is None:
        raise LeftOut("without a dim")
    return Call("take_along_dim", given(sample.input, index_of(index)), [dim])


def scatter(sample):
    values = dict(zip(("dim", "index", "src"), sample.args)) | sample.kwargs
    src = real(values.pop("value", values.pop("src", None)))
    how = values.pop("reduce", None)
    dim, index = values.pop("dim"), index_of(values.pop("index"))
    if values:
        raise LeftOut("argument " + ", ".join(sorted(values)))
    if how is not None:
        if not isinstance(src, torch.Tensor):
            raise LeftOut("a number that is joined")
        how = {"add": "sum", "multiply": "prod"}[how]
        return Call("scatter_reduce", given(sample.input, index, src), [dim, how, True], gradients=False)
    unique = not has_equal_ones(index, dim)
    if isinstance(src, torch.Tensor):
        return Call("scatter", given(sample.input, index, src), [dim], gradients=unique)
    return Call("scatter", given(sample.input, index), [dim, src])


def scatter_add(sample):
    dim, index, src = arguments_of(sample, "dim", "index", "src")
    return Call("scatter_add", given(sample.input, index_of(index), src), [dim])


def scatter_reduce(sample):
    dim, index, src, how, include_self = arguments_of(sample, "dim", "index", "src", "reduce", include_self=True)
    return Call("scatter_reduce", given(sample.input, index_of(index), src), [dim, how, include_self])


def any_index(tensor):
    if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.bool:
        return tensor
    return index_of(tensor)


def index_put(sample):
    indices, values, accumulate = arguments_of(sample, "indices", "values", accumulate=False)
    which = [index is not None for index in indices]
    return Call("index_put", given(sample.input, values, *[any_index(index) for index in indices if index is not None]),
                [which, accumulate])


def getitem(sample):
    """Numbers, slices, None and ... come first, as ops on views; then the tensors."""
    (key,) = arguments_of(sample, "key")
    key = key if isinstance(key, tuple) else [key]
    key = [torch.tensor(part) if isinstance(part, list) else part for part in key]
    used = sum(part.dim() if isinstance(part, torch.Tensor) and part.dtype == torch.bool else part not in (None, ...)
               if not isinstance(part, torch.Tensor) else 1 for part in key)
    steps, tensors, dim = [], [], 0
    for part in key:
        if part is None:
            steps.append(["new"])
        elif part is ...:
            steps += [["all"]] * (sample.input.dim() - used)
            dim += sample.input.dim() - used
        elif isinstance(part, torch.Tensor):
            steps.append(["tensor"])
            tensors.append(any_index(part))
            dim += part.dim() if part.dtype == torch.bool else 1
        elif isinstance(part, slice):
            start, stop, step = part.indices(sample.input.size(dim))
            if step < 1:
                raise LeftOut("a slice that goes backwards")
            steps.append(["slice", start, max(0, stop - start), step])
            dim += 1
        else:
            steps.append(["number", int(part)])
            dim += 1
    if tensors and any(step[0] == "number" for step in steps):
        raise LeftOut("numbers and tensors")
    return Call("getitem", given(sample.input, *tensors), [steps])


def along(name):
    def call(sample):
        dim, index, source = arguments_of(sample, "dim", "index", "source")
        return Call(name, given(sample.input, index_of(index), source), [dim],
                    gradients=not has_equal_ones(index, 0))
    return call


def index_add(sample):
    dim, index, source, alpha = arguments_of(sample, "dim", "index", "source", alpha=1)
    return Call("index_add", given(sample.input, index_of(index), source), [dim, real(alpha)])


def index_select(sample):
    dim, index = arguments_of(sample, "dim", "index")
    return Call("index_select", given(sample.input, index_of(index)), [dim])


def index_fill(sample):
    dim, index, value = arguments_of(sample, "dim", "index", "value")
    if isinstance(value, torch.Tensor):
        return Call("index_fill", given(sample.input, index_of(index), value), [dim])
    return Call("index_fill", given(sample.input, index_of(index)), [dim, real(value)])


def take(sample):
    (index,) = arguments_of(sample, "index")
    return Call("take", given(sample.input, index_of(index)))


def put(sample):
    index, source, accumulate = arguments_of(sample, "index", "source", accumulate=False)
    return Call("put", given(sample.input, index_of(index), source), [accumulate],
                gradients=accumulate or not has_equal_ones(index.flatten(), 0))


def masked_fill(sample):
    mask, value = arguments_of(sample, "mask", "value")
    if isinstance(value, torch.Tensor):
        return Call("masked_fill", given(sample.input, mask, value))
    return Call("masked_fill", given(sample.input, mask), [real(value)])


def masked_scatter(sample):
    mask, source = arguments_of(sample, "mask", "source")
    return Call("masked_scatter", given(sample.input, mask, source))


def triangle(name):
    def call(sample):
        (diagonal,) = arguments_of(sample, diagonal=0)
        return Call(name, given(sample.input), [diagonal])
    return call


def diagonal(name, a, b):
    def call(sample):
        return Call(name, given(sample.input), arguments_of(sample, offset=0, dim1=a, dim2=b))
    return call


def roll(sample):
    shifts, dims = arguments_of(sample, "shifts", dims=None)
    return Call("roll", given(sample.input), [integers(shifts), [] if dims is None else integers(dims)])


def stack(sample):
    return Call("stack", given(*sample.input), arguments_of(sample, dim=0))


def chunk(sample):
    """With the empty parts that torch leaves out."""
    n, dim = arguments_of(sample, "chunks", dim=0)

    def parts(value):
        return [*value] + [value[-1].narrow(dim, 0, 0)] * (n - len(value))
    return Call("chunk", given(sample.input), [n, dim], parts)


def meshgrid(sample):
    tensors = [*sample.input, *sample.args] if isinstance(sample.input, (list, tuple)) else [sample.input, *sample.args]
    named = dict(sample.kwargs)
    return Call("meshgrid", given(*tensors), [named.pop("indexing", "ij") == "xy"])


def repeat(name):
    def call(sample):
        times = sample.args[0] if len(sample.args) == 1 else sample.args
        return Call(name, given(sample.input), [integers(times)])
    return call


def flatten(sample):
    return Call("flatten", given(sample.input), arguments_of(sample, start_dim=0, end_dim=-1))


def unflatten(sample):
    dim, sizes = arguments_of(sample, "dim", "sizes")
    return Call("unflatten", given(sample.input), [dim, integers(sizes)])


def movedim(sample):
    source, destination = arguments_of(sample, "source", "destination")
    return Call("movedim", given(sample.input), [integers(source), integers(destination)])


def select(sample):
    return Call("select", given(sample.input), arguments_of(sample, "dim", "index"))


def narrow(sample):
    """From a start that is a number, or read from data."""
    dim, start, length = arguments_of(sample, "dim", "start", "length")
    if not isinstance(start, torch.Tensor):
        return Call("narrow", given(sample.input), [dim, start if start >= 0 else start + sample.input.size(dim), length])
    if start < 0:
        raise LeftOut("a start below 0 that is read from data")
    return Call("narrow", given(sample.input, start), [dim, None, length])


def cut(sample):
    dim, start, end, step = arguments_of(sample, dim=0, start=None, end=None, step=1)
    first, last, _ = slice(start, end).indices(sample.input.size(dim))
    return Call("stepped", given(sample.input), [dim, first, max(0, last - first), step])


def unbind(sample):
    """Into as many tensors as a size says, which is a number therefore."""
    return Call("unbind", given(sample.input), arguments_of(sample, dim=0), symbolic=False)


CALLS = {
    "gather": gather, "take_along_dim": take_along_dim, "scatter": scatter, "scatter_add": scatter_add,
    "index_put": index_put, "__getitem__": getitem, "index_copy": along("index_copy"), "index_add": index_add,
    "index_select": index_select, "index_fill": index_fill, "take": take, "put": put, "masked_fill": masked_fill,
    "masked_scatter": masked_scatter, "tril": triangle("tril"), "triu": triangle("triu"),
    "diag": triangle("diag"), "diagonal": diagonal("diagonal", 0, 1), "diag_embed": diagonal("diag_embed", -2, -1),
    "roll": roll, "stack": stack, "chunk": chunk, "meshgrid.variadic_tensors": meshgrid,
    "meshgrid.list_of_tensors": meshgrid, "repeat": repeat("repeat"), "tile": repeat("tile"), "flatten": flatten,
    "unflatten": unflatten, "movedim": movedim, "select": select, "narrow": narrow, "slice": cut, "unbind": unbind,
} | {"scatter_reduce." + how: scatter_reduce for how in ("sum", "prod", "mean", "amax", "amin")}
