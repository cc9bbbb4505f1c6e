#!/usr/bin/env python3
"""Trains one workload of the suite by PyTorch and prints what its steps took, as lockstep_suite does.

usage: [scripts/mpirun -n RANKS] torch_suite.py WORKLOAD [--mode eager|inductor] [--size tiny|full]
       [--dtype f32|f64] [--steps N] [--warm N] [--threads N] [--meet FILE]

Models, parameters and data are those of the files beside this one, by the same formulas, so both sides have the same
losses. More ranks than one meet by FILE, a new one for each job, over gloo. Exit codes: 0, 2 (usage), 7 (no PyTorch).
"""
import argparse
import json
import math
import os
import resource
import sys
import time

try:
    import numpy
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
except ImportError as missing:
    print(f"torch_suite: {missing.name} is not installed for {sys.executable}.", file=sys.stderr)
    sys.exit(7)


def number(tensor, elements):
    """In [0, 1), of each element of a tensor: numbers.h."""
    elements = numpy.asarray(elements, dtype=numpy.uint64)
    with numpy.errstate(over="ignore"):
        z = (numpy.uint64(tensor << 40) + elements + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> numpy.uint64(31))) >> numpy.uint64(11)).astype(numpy.float64) * 2.0 ** -53


def whole(tensor, elements, below):
    return (number(tensor, elements) * below).astype(numpy.int64)


def product_scale(width):
    return math.sqrt(3.0 / width)


class Setting:
    def __init__(self, dtype, tiny, rank, ranks):
        self.dtype, self.tiny, self.rank, self.ranks = dtype, tiny, rank, ranks

    def size(self, full, small):
        return small if self.tiny else full

    def share(self, count):
        return count // self.ranks

    def first(self, count):
        return self.share(count) * self.rank

    def spread(self, sizes, tensor, scale, first=0):
        values = (2 * number(tensor, first + numpy.arange(math.prod(sizes))) - 1) * scale
        return torch.from_numpy(values).reshape(sizes).to(self.dtype)

    def filled(self, sizes, value):
        return torch.full(sizes, float(value), dtype=self.dtype)

    def product(self, tensor, *sizes):
        """A matrix, or one for each of sizes[0]."""
        return self.spread(sizes, tensor, product_scale(sizes[-2]))


class Experts:
    """experts.cpp"""

    def __init__(self, s):
        self.s, self.layers = s, 2
        self.lines, self.length, self.words = s.size(64, 8), s.size(48, 6), s.size(4096, 20)
        self.width, self.hidden, self.experts = s.size(256, 8), s.size(1024, 12), s.size(8, 4)

    def parameters(self):
        s, tensor = self.s, iter(range(100))
        out = [s.spread((self.words, self.width), next(tensor), 1) for _ in range(2)]
        for _ in range(self.layers):
            out += [s.filled((self.width,), 1), s.product(next(tensor), self.width, self.experts),
                    s.product(next(tensor), self.experts, self.width, self.hidden),
                    s.product(next(tensor), self.experts, self.hidden, self.width)]
        return out + [s.filled((self.width,), 1), s.product(next(tensor), self.width, self.words)]

    def batch(self, step):
        s = self.s
        lines = step * self.lines + numpy.arange(self.lines)
        least = self.length // 3
        lengths = least + whole(100, lines, self.length - least + 1)
        first = s.first(self.lines)
        mine = range(first, first + s.share(self.lines))
        words = [whole(101, lines[i] * (self.length + 2) + numpy.arange(lengths[i] + 2), self.words) for i in mine]
        return [*(torch.from_numpy(numpy.concatenate([line[at:len(line) - 2 + at] for line in words])) for at in range(3)),
                s.filled((), lengths.sum())]

    def chosen_experts(self, x, gate, first, second):
        scores = torch.softmax(x @ gate, 1)
        choice = scores.argmax(1)
        weight = scores.gather(1, choice[:, None])
        order = choice.argsort(stable=True)
        counts = torch.bincount(choice, minlength=self.experts).tolist()
        parts = x[order].split(counts)
        made = torch.cat([F.gelu(part @ first[e], approximate="tanh") @ second[e] for e, part in enumerate(parts)])
        return made[order.argsort()] * weight

    def loss(self, p, batch):
        p = iter(p)
        x = F.embedding(batch[0], next(p)) + F.embedding(batch[1], next(p))
        for _ in range(self.layers):
            x = x + self.chosen_experts(F.rms_norm(x, (self.width,), next(p), 1e-6), next(p), next(p), next(p))
        scores = F.rms_norm(x, (self.width,), next(p), 1e-6) @ next(p)
        return F.cross_entropy(scores, batch[2], reduction="sum") / batch[3]


class Transformer:
    """transformer.cpp"""

    def __init__(self, s):
        self.s = s
        self.layers, self.width, self.heads = s.size(8, 2), s.size(512, 8), s.size(8, 2)
        self.words, self.length, self.lines = s.size(8192, 16), s.size(256, 6), s.size(8, 4)

    def parameters(self):
        s, w, tensor = self.s, self.width, iter(range(100))
        out = [s.spread((self.words, w), next(tensor), 0.05), s.spread((self.length, w), next(tensor), 0.05)]
        for _ in range(self.layers):
            out += [s.filled((w,), 1), s.filled((w,), 0), s.product(next(tensor), w, 3 * w), s.product(next(tensor), w, w),
                    s.filled((w,), 1), s.filled((w,), 0), s.product(next(tensor), w, 4 * w), s.filled((4 * w,), 0),
                    s.product(next(tensor), 4 * w, w), s.filled((w,), 0)]
        return out + [s.filled((w,), 1), s.filled((w,), 0)]

    def batch(self, step):
        mine = self.s.share(self.lines)
        lines = step * self.lines + self.s.first(self.lines) + numpy.arange(mine)
        words = whole(100, lines[:, None] * (self.length + 1) + numpy.arange(self.length + 1), self.words)
        return [torch.from_numpy(words[:, :-1].copy()), torch.from_numpy(words[:, 1:].reshape(-1).copy())]

    def loss(self, p, batch):
        p, w = iter(p), (self.width,)
        table = next(p)
        x = F.embedding(batch[0], table) + next(p)
        for _ in range(self.layers):
            y = F.layer_norm(x, w, next(p), next(p)) @ next(p)
            parts = y.reshape(-1, self.length, 3, self.heads, self.width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            seen = F.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + seen.permute(0, 2, 1, 3).reshape(x.shape) @ next(p)
            hidden = F.gelu(F.layer_norm(x, w, next(p), next(p)) @ next(p) + next(p), approximate="tanh")
            x = x + hidden @ next(p) + next(p)
        scores = F.layer_norm(x, w, next(p), next(p)) @ table.T
        return F.cross_entropy(scores.reshape(-1, self.words), batch[1], reduction="sum") / (self.lines * self.length)


class Recommender:
    """recommender.cpp"""

    def __init__(self, s):
        self.s, self.features, self.numbers = s, 26, 13
        self.rows, self.width, self.hidden = s.size(2000, 5), s.size(32, 4), s.size(256, 8)
        self.samples, self.most = s.size(1024, 8), s.size(12, 4)
        self.pairs = self.features * (self.features + 1) // 2

    def parameters(self):
        s, tensor = self.s, iter(range(100))
        out = [s.spread((self.features * self.rows, self.width), next(tensor), 0.5)]
        for rows, columns in ((self.numbers, self.hidden), (self.hidden, self.width),
                              (self.width + self.pairs, self.hidden), (self.hidden, self.hidden), (self.hidden, 1)):
            out += [s.product(next(tensor), rows, columns), s.filled((columns,), 0)]
        return out

    def batch(self, step):
        s, mine = self.s, self.s.share(self.samples)
        first = step * self.samples + s.first(self.samples)
        bags = (first + numpy.arange(mine)) * self.features + numpy.arange(self.features)[:, None]
        lengths = whole(101, bags, self.most + 1)
        values = whole(102, bags[:, :, None] * self.most + numpy.arange(self.most), self.rows)
        values += numpy.arange(self.features)[:, None, None] * self.rows
        values = values[numpy.arange(self.most) < lengths[:, :, None]]
        ends = numpy.concatenate([[0], lengths.reshape(-1).cumsum()[:-1]])
        places = [i * (self.features + 1) + j for i in range(self.features + 1) for j in range(i)]
        clicked = torch.from_numpy(whole(103, first + numpy.arange(mine), 2)).to(s.dtype)
        return [s.spread((mine, self.numbers), 100, 1, first * self.numbers), torch.from_numpy(values),
                torch.from_numpy(ends), clicked, torch.tensor(places)]

    def loss(self, p, batch):
        p = iter(p)
        bags = F.embedding_bag(batch[1], next(p), batch[2], mode="sum")
        dense = torch.relu(torch.relu(batch[0] @ next(p) + next(p)) @ next(p) + next(p))
        each = torch.cat([dense[:, None], bags.reshape(self.features, -1, self.width).transpose(0, 1)], 1)
        products = torch.bmm(each, each.transpose(1, 2)).flatten(1)
        x = torch.cat([dense, products.index_select(1, batch[4])], 1)
        for _ in range(2):
            x = torch.relu(x @ next(p) + next(p))
        x = (x @ next(p) + next(p)).squeeze(1)
        return F.binary_cross_entropy_with_logits(x, batch[3], reduction="sum") / self.samples


class Lstm:
    """lstm.cpp"""

    def __init__(self, s):
        self.s = s
        self.lines, self.length, self.words, self.width = s.size(32, 4), s.size(64, 5), s.size(1024, 12), s.size(256, 6)

    def parameters(self):
        s, w, scale = self.s, self.width, product_scale(self.width)
        return [s.spread((self.words, w), 0, 1), s.spread((4 * w, w), 1, scale), s.spread((4 * w, w), 2, scale),
                s.filled((4 * w,), 0), s.spread((w, self.words), 3, scale)]

    def batch(self, step):
        mine = self.s.share(self.lines)
        lines = step * self.lines + self.s.first(self.lines) + numpy.arange(mine)
        words = whole(100, lines * (self.length + 1) + numpy.arange(self.length + 1)[:, None], self.words)
        return [torch.from_numpy(words[:-1].copy()), torch.from_numpy(words[1:].reshape(-1).copy())]

    @torch.compiler.disable  # as torch.nn.LSTM; Inductor would unroll the scan, and compile for many minutes
    def scanned(self, x, *weights):
        none = x.new_zeros((1, x.shape[1], self.width))
        return torch._VF.lstm(x, (none, none), weights, True, 1, 0.0, True, False, False)[0]

    def loss(self, p, batch):
        table, of_input, of_hidden, bias, head = p
        seen = self.scanned(F.embedding(batch[0], table), of_input, of_hidden, bias, torch.zeros_like(bias))
        return F.cross_entropy(seen.reshape(-1, self.width) @ head, batch[1], reduction="sum") / (self.lines * self.length)


class Graph:
    """graph.cpp"""

    def __init__(self, s):
        self.s, self.layers = s, 3
        self.graphs, self.most, self.neighbours, self.width = s.size(256, 16), s.size(40, 5), s.size(7, 3), s.size(128, 4)

    def parameters(self):
        s, w = self.s, self.width
        out = []
        for layer in range(self.layers):
            out += [s.product(2 * layer, w, w), s.product(2 * layer + 1, w, w), s.filled((w,), 0)]
        return out + [s.product(2 * self.layers, w, 1)]

    def batch(self, step):
        """As in graph.cpp, with the node of each edge and the graph of each node in place of lengths."""
        s, mine = self.s, self.s.share(self.graphs)
        first = step * self.graphs + s.first(self.graphs)
        graphs = first + numpy.arange(mine)
        sizes = 1 + whole(100, graphs, self.most)
        graph = numpy.repeat(numpy.arange(mine), sizes)
        starts = sizes.cumsum() - sizes
        nodes = graphs[graph] * self.most + numpy.arange(sizes.sum()) - starts[graph]
        degrees = whole(101, nodes, self.neighbours + 1)
        to = numpy.repeat(numpy.arange(len(nodes)), degrees)
        place = numpy.arange(len(to)) - (degrees.cumsum() - degrees)[to]
        below = sizes[graph][to]
        found = (number(102, nodes[to] * self.neighbours + place) * below).astype(numpy.int64) + starts[graph][to]
        known = 2 * number(103, nodes[:, None] * self.width + numpy.arange(self.width)) - 1
        share = 1 / numpy.maximum(1.0, degrees)[:, None]
        return [torch.from_numpy(known).to(s.dtype), torch.from_numpy(found), torch.from_numpy(to),
                torch.from_numpy(share).to(s.dtype), torch.from_numpy(graph), s.spread((mine,), 104, 1, first)]

    def loss(self, p, batch):
        p, x = iter(p), batch[0]
        for _ in range(self.layers):
            seen = torch.zeros_like(x).index_add(0, batch[2], x[batch[1]]) * batch[3]
            x = torch.relu(x @ next(p) + seen @ next(p) + next(p))
        found = x.new_zeros((batch[5].shape[0], 1)).index_add(0, batch[4], x @ next(p))
        return F.mse_loss(found.squeeze(1), batch[5], reduction="sum") / self.graphs


class Capacity:
    """capacity.cpp"""

    def __init__(self, s):
        self.s, self.groups = s, 4
        self.tokens, self.words, self.width = s.size(512, 12), s.size(2048, 12), s.size(256, 6)
        self.hidden, self.experts, self.capacity = s.size(1024, 8), s.size(8, 3), s.size(80, 5)

    def parameters(self):
        s, w = self.s, self.width
        return [s.spread((self.words, w), 0, 1), s.product(1, w, self.experts), s.product(2, self.experts, w, self.hidden),
                s.product(3, self.experts, self.hidden, w), s.product(4, w, self.words)]

    def batch(self, step):
        groups = step * self.groups + self.s.first(self.groups) + numpy.arange(self.s.share(self.groups))
        words = whole(100, groups[:, None] * (self.tokens + 1) + numpy.arange(self.tokens + 1), self.words)
        return [torch.from_numpy(part.reshape(-1).copy()) for part in (words[:, :-1], words[:, 1:])]

    def loss(self, p, batch):
        table, gate, first, second, head = p
        mine = self.s.share(self.groups)
        slots = mine * self.experts
        x = F.embedding(batch[0], table)
        scores = torch.softmax(x @ gate, 1)
        choice = scores.argmax(1)
        weight = scores.gather(1, choice[:, None])
        target = torch.arange(mine).repeat_interleave(self.tokens) * self.experts + choice
        before = (F.one_hot(target, slots).cumsum(0) - 1).gather(1, target[:, None]).squeeze(1)
        place = torch.where(before < self.capacity, target * self.capacity + before, slots * self.capacity)
        rows = x.new_zeros((slots * self.capacity + 1, self.width)).index_add(0, place, x)[:-1]
        hidden = F.gelu(rows.reshape(mine, self.experts, self.capacity, self.width) @ first, approximate="tanh")
        made = F.pad((hidden @ second).reshape(-1, self.width), (0, 0, 0, 1))  # the last row is that of dropped tokens
        x = x + made[place] * weight
        return F.cross_entropy(x @ head, batch[1], reduction="sum") / (self.groups * self.tokens)


class SumOverRanks(torch.autograd.Function):
    """The sum of each rank's tensor. Each rank's loss is a part of the whole, so the gradient is a sum, too."""

    @staticmethod
    def forward(_, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_, gradient):
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient


class TensorParallel:
    """tensor_parallel.cpp"""

    def __init__(self, s):
        self.s = s
        self.rows, self.width, self.hidden, self.layers = s.size(512, 6), s.size(512, 5), s.size(2048, 8), s.size(4, 2)

    def parameters(self):
        first, mine = self.s.first(self.hidden), self.s.share(self.hidden)
        out = []
        for layer in range(self.layers):
            out += [self.s.product(2 * layer, self.width, self.hidden)[:, first:first + mine].contiguous(),
                    self.s.product(2 * layer + 1, self.hidden, self.width)[first:first + mine].contiguous()]
        return out

    def batch(self, step):
        first = step * self.rows * self.width
        return [self.s.spread((self.rows, self.width), tensor, 1, first) for tensor in (100, 101)]

    @staticmethod
    def part(x, first, second):
        """What is compiled where the loop around it, with its collective, is not."""
        return F.gelu(x @ first, approximate="tanh") @ second

    @torch.compiler.disable
    def joined(self, x):
        return SumOverRanks.apply(x)

    def loss(self, p, batch):
        p, x = iter(p), batch[0]
        for _ in range(self.layers):
            part = self.part(x, next(p), next(p))
            x = x + (self.joined(part) if self.s.ranks > 1 else part)
        return F.mse_loss(x, batch[1]) / self.s.ranks

    def replicas(self):
        return None


class ToNextStage(torch.autograd.Function):
    """Sends x to a rank and, in the backward pass, receives its gradient from there."""

    @staticmethod
    def forward(context, x, rank):
        context.rank, context.sizes, context.dtype = rank, x.shape, x.dtype
        dist.send(x.contiguous(), rank)
        return x.new_zeros(())

    @staticmethod
    def backward(context, _):
        gradient = torch.empty(context.sizes, dtype=context.dtype)
        dist.recv(gradient, context.rank)
        return gradient, None


class FromStageBefore(torch.autograd.Function):
    """The x that a rank sends; sends its gradient back. `start` has a gradient, so that this has one, too."""

    @staticmethod
    def forward(context, start, sizes, rank):
        context.rank = rank
        x = start.new_empty(sizes)
        dist.recv(x, rank)
        return x

    @staticmethod
    def backward(context, gradient):
        dist.send(gradient.contiguous(), context.rank)
        return None, None, None


class Pipeline:
    """pipeline.cpp"""

    MICRO_BATCHES = 4

    def __init__(self, s):
        self.s, self.pipelines = s, max(s.ranks // 2, 1)
        self.stage = s.rank // self.pipelines
        self.rows, self.width, self.hidden, self.layers = s.size(512, 16), s.size(512, 5), s.size(1024, 7), s.size(3, 1)
        halves = [range(self.pipelines), range(self.pipelines, s.ranks)]
        self.half = [dist.new_group(list(half)) for half in halves][self.stage] if s.ranks > 1 else None

    def parameters(self):
        stages = range(2) if self.s.ranks == 1 else [self.stage]
        out = []
        for layer in (stage * self.layers + i for stage in stages for i in range(self.layers)):
            out += [self.s.product(2 * layer, self.width, self.hidden), self.s.product(2 * layer + 1, self.hidden, self.width)]
        return out

    def batch(self, step):
        """Both on every rank; each takes the one that its stage needs."""
        mine = self.rows // self.pipelines
        first = (step * self.rows + self.s.rank % self.pipelines * mine) * self.width
        return [self.s.spread((mine, self.width), tensor, 1, first) for tensor in (100, 101)]

    @torch.compiler.disable
    def send(self, x):
        return ToNextStage.apply(x, self.s.rank + self.pipelines)

    @torch.compiler.disable
    def receive(self, like):
        start = torch.zeros((), dtype=like.dtype, requires_grad=True)
        return FromStageBefore.apply(start, like.shape, self.s.rank - self.pipelines)

    @staticmethod
    def through(x, p):
        for up, down in zip(p[::2], p[1::2]):
            x = x + F.gelu(x @ up, approximate="tanh") @ down
        return x

    def loss(self, p, batch):
        total = 0
        for x, target in zip(batch[0].chunk(self.MICRO_BATCHES), batch[1].chunk(self.MICRO_BATCHES)):
            if self.s.ranks > 1 and self.stage == 0:
                total = total + self.send(self.through(x, p))
            else:
                found = self.through(x if self.s.ranks == 1 else self.receive(x), p)
                total = total + F.mse_loss(found, target, reduction="sum")
        return total / (self.rows * self.width)

    def replicas(self):
        return self.half


class Masks:
    """masks.cpp"""

    def __init__(self, s):
        self.s = s
        self.tokens, self.words, self.width, self.hidden = s.size(8192, 24), s.size(1024, 10), s.size(256, 6), s.size(512, 8)

    def parameters(self):
        s = self.s
        return [s.spread((self.words, self.width), 0, 1), s.product(1, self.width, self.hidden),
                s.product(2, self.hidden, self.width), s.product(3, self.width, self.words)]

    def batch(self, step):
        places = step * self.tokens + self.s.first(self.tokens) + numpy.arange(self.s.share(self.tokens))
        tokens = (number(100, places) * number(101, places) * self.words).astype(numpy.int64)
        return [torch.from_numpy(tokens), torch.from_numpy(whole(102, places, self.words)), torch.from_numpy(number(103, places))]

    def loss(self, p, batch):
        table, first, second, head = p
        values, inverse = torch.unique(batch[0], return_inverse=True)
        rows = F.embedding(values, table)
        made = rows + F.gelu(rows @ first, approximate="tanh") @ second
        mask = batch[2] < 0.15
        return F.cross_entropy(made[inverse][mask] @ head, batch[1][mask], reduction="sum") / self.tokens


class Convolution:
    """convolution.cpp"""

    def __init__(self, s):
        self.s, self.classes = s, 10
        self.images, self.side = s.size(64, 4), s.size(32, 8)
        self.channels = [3, s.size(32, 3), s.size(64, 4), s.size(128, 5)]

    def parameters(self):
        s, out = self.s, []
        for i, (before, after) in enumerate(zip(self.channels, self.channels[1:])):
            out += [s.spread((after, before, 3, 3), i, product_scale(9 * before)), s.filled((after,), 0)]
        return out + [s.product(len(self.channels) - 1, self.channels[-1], self.classes), s.filled((self.classes,), 0)]

    def batch(self, step):
        mine = self.s.share(self.images)
        first = step * self.images + self.s.first(self.images)
        return [self.s.spread((mine, 3, self.side, self.side), 100, 1, first * 3 * self.side ** 2),
                torch.from_numpy(whole(101, first + numpy.arange(mine), self.classes))]

    def loss(self, p, batch):
        p, x = iter(p), batch[0]
        for i in range(3):
            x = torch.relu(F.conv2d(x, next(p), next(p), padding=1))
            if i < 2:
                x = F.max_pool2d(x, 2)
        return F.cross_entropy(x.mean((2, 3)) @ next(p) + next(p), batch[1], reduction="sum") / self.images


WORKLOADS = {"experts": Experts, "transformer": Transformer, "recommender": Recommender, "lstm": Lstm, "graph": Graph,
             "capacity": Capacity, "tensor_parallel": TensorParallel, "pipeline": Pipeline, "masks": Masks,
             "convolution": Convolution}


def sum_over(group, tensors):
    """By one collective for all of them."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    dist.all_reduce(flat, group=group)
    for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
        tensor.copy_(total.view_as(tensor))


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def processor_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def train(workload, s, arguments):
    loss_of = workload.loss
    if arguments.mode == "inductor":
        # Counts of experts, and sizes that come from data, stay in the graph.
        torch._dynamo.config.capture_scalar_outputs = True
        torch._dynamo.config.capture_dynamic_output_shape_ops = True
        loss_of = torch.compile(loss_of)
    parameters = [tensor.requires_grad_() for tensor in workload.parameters()]
    replicas = workload.replicas() if hasattr(workload, "replicas") else s.ranks > 1 and dist.group.WORLD
    adam = torch.optim.Adam(parameters, eps=1e-3, fused=True)  # training.cpp says why
    out = {"losses": [], "wall_s": [], "cpu_s": [], "compiled": []}
    for step in range(arguments.steps):
        if step == arguments.warm:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        batch = workload.batch(step)
        before, processor, begin = graphs(), processor_s(), time.perf_counter()
        loss = loss_of(parameters, batch)
        loss.backward()
        loss = loss.detach().clone()
        if s.ranks > 1:
            if replicas:
                sum_over(replicas, [tensor.grad for tensor in parameters])
            dist.all_reduce(loss)
        adam.step()
        adam.zero_grad()
        out["losses"].append(loss.item())
        out["wall_s"].append(time.perf_counter() - begin)
        out["cpu_s"].append(processor_s() - processor)
        out["compiled"].append(graphs() - before)
    out["peak_bytes"] = peak_bytes()
    if s.ranks > 1:
        slowest = torch.tensor(out["wall_s"] + [out["peak_bytes"]], dtype=torch.float64)
        total = torch.tensor(out["cpu_s"], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        dist.all_reduce(total)
        *out["wall_s"], out["peak_bytes"] = slowest.tolist()
        out["cpu_s"] = total.tolist()
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--mode", choices=("eager", "inductor"), default="eager")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--dtype", choices=("f32", "f64"), default="f32")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--meet", help="a new file, by which more ranks than one meet")
    arguments = parser.parse_args()
    ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    if ranks > 1 and not arguments.meet:
        parser.error("more ranks than one meet by --meet FILE")
    torch.set_num_threads(arguments.threads)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{os.path.abspath(arguments.meet)}", rank=rank, world_size=ranks)
    s = Setting(torch.float64 if arguments.dtype == "f64" else torch.float32, arguments.size == "tiny", rank, ranks)
    made = train(WORKLOADS[arguments.workload](s), s, arguments)
    if rank == 0:
        print(json.dumps({"side": arguments.mode, "workload": arguments.workload, "size": arguments.size,
                          "dtype": arguments.dtype, "ranks": ranks, "warm": arguments.warm, "fallbacks": 0, **made}))
    if ranks > 1:
        dist.destroy_process_group()


main()
