"""Jagged tensors: see ops_call.py. torch has op tests of segment_reduce; the others are compared with torch's
functions, segment by segment."""

import itertools

import torch
from ops_call import Call, LeftOut, arguments_of


def segment_reduce(sample):
    reduce, lengths, offsets, axis, _, initial = arguments_of(
        sample, "reduce", lengths=None, offsets=None, axis=0, unsafe=False, initial=None)
    by = offsets if lengths is None else lengths
    covered = offsets.select(axis, -1) if lengths is None else lengths.sum(axis)
    if (covered != sample.input.size(axis)).any():
        raise LeftOut("lengths that do not add up")
    return Call("segment_reduce", [sample.input, by], [reduce, axis, initial, lengths is None])


CALLS = {"_segment_reduce.lengths": segment_reduce, "_segment_reduce.offsets": segment_reduce}

LENGTHS = [1], [4], [2, 3], [1, 1, 1], [3, 1, 6, 2], [0, 3, 0, 2], [0]


def drawn(sizes, seed, count=1):
    """For lists of lengths, in every dtype: the lengths, and tensors [rows, *sizes] of as many rows."""
    generator = torch.Generator().manual_seed(seed)
    for dtype, lengths in itertools.product((torch.float64, torch.float32, torch.bfloat16, torch.float16), LENGTHS):
        yield torch.tensor(lengths), [torch.randn(sum(lengths), *sizes, dtype=dtype, generator=generator)
                                      for _ in range(count)]


def each(function, by_torch):
    """A function of each segment."""
    for sizes in ((), (3,), (2, 3)):
        for lengths, (x,) in drawn(sizes, 3):
            def segments(x, lengths):
                return [torch.cat([by_torch(part) for part in x.split(lengths.tolist())])]
            yield Call(function, [x, lengths]), segments


def padded():
    """To dense and back."""
    for fill in (0.0, -2.5):
        def there_and_back(x, lengths):
            dense = torch.nn.utils.rnn.pad_sequence(x.split(lengths.tolist()), batch_first=True, padding_value=fill)
            return [dense, torch.cat([row[:length] for row, length in zip(dense, lengths)])]
        for lengths, (x,) in drawn((3,), 4):
            yield Call("to_padded", [x, lengths], [fill]), there_and_back


def attention():
    for causal in (False, True):
        def segments(*tensors):
            *tensors, lengths = tensors
            parts = zip(*(x.split(lengths.tolist()) for x in tensors))
            return [torch.cat([torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                               for q, k, v in parts])]
        for lengths, tensors in drawn((4,), 5, 3):
            yield Call("jagged_attention", [*tensors, lengths], [causal]), segments


MORE = {"softmax, by segment": lambda: each("segment_softmax", lambda part: part.softmax(0)),
        "cumsum, by segment": lambda: each("segment_cumsum", lambda part: part.cumsum(0)),
        "pad_sequence": padded, "scaled_dot_product_attention, by segment": attention}
