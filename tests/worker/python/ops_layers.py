"""Products, and what models are made of: see ops_call.py. Optimisers, clipping and schedules have no op tests: they are
run beside torch's for some steps."""

import itertools

import torch
from ops_call import Call, LeftOut, arguments_of


def with_tensors(function, tensors, optional, arguments, **more):
    """`arguments` of JSON, in which those of `optional`, by place, are the numbers of their tensors or nothing."""
    tensors, arguments = list(tensors), list(arguments)
    for place, tensor in optional.items():
        arguments.insert(place, None if tensor is None else len(tensors))
        tensors += [] if tensor is None else [tensor]
    return Call(function, tensors, arguments, **more)


def product(function):
    def call(sample):
        (other,) = arguments_of(sample, "other")
        return Call(function, [sample.input, other])
    return call


def turned_product(sample):
    (other,) = arguments_of(sample, "other")
    return Call("matmul", [other, sample.input])


def einsum(sample):
    (equation,) = arguments_of(sample, "equation")
    if sample.input[0].dtype in (torch.int32, torch.uint8):
        raise LeftOut("narrow ints, which torch widens where it only adds")
    return Call("einsum", list(sample.input), [equation])


def is_noise(x, alone):
    """Whether the gradient by a weight is 0 but for rounding: of an element or a channel that is normalised alone."""
    return x.dtype == torch.float32 and alone


def layer_norm(sample):
    shape, weight, bias, eps = arguments_of(sample, "normalized_shape", weight=None, bias=None, eps=1e-5)
    return with_tensors("layer_norm", [sample.input], {1: weight, 2: bias}, [len(shape), eps],
                        gradients=not is_noise(sample.input, sample.input.numel() == 1))


def rms_norm(sample):
    shape, weight, eps = arguments_of(sample, "normalized_shape", weight=None, eps=None)
    return with_tensors("rms_norm", [sample.input], {1: weight}, [len(shape), eps])


def group_norm(sample):
    groups, weight, bias, eps = arguments_of(sample, "num_groups", weight=None, bias=None, eps=1e-5)
    return with_tensors("group_norm", [sample.input], {1: weight, 2: bias}, [groups, eps],
                        gradients=not is_noise(sample.input, groups == sample.input.size(1)))


def cross_entropy(sample):
    target, weight, ignored, reduction, smoothing = arguments_of(
        sample, "target", weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0)
    return with_tensors("cross_entropy", [sample.input, target], {0: weight}, [ignored, reduction, smoothing],
                        constants=[weight])


def nll_loss(sample):
    target, weight, ignored, reduction = arguments_of(
        sample, "target", weight=None, ignore_index=-100, reduction="mean")
    return with_tensors("nll_loss", [sample.input, target], {0: weight}, [ignored, reduction], constants=[weight])


def mse_loss(sample):
    target, reduction = arguments_of(sample, "target", reduction="mean")
    return Call("mse_loss", [sample.input, target], [reduction])


def smooth_l1_loss(sample):
    target, reduction, beta = arguments_of(sample, "target", reduction="mean", beta=1.0)
    return Call("smooth_l1_loss", [sample.input, target], [reduction, beta])


def huber_loss(sample):
    target, reduction, delta = arguments_of(sample, "target", reduction="mean", delta=1.0)
    return Call("huber_loss", [sample.input, target], [reduction, delta])


def binary(sample):
    target, weight, positive, reduction = arguments_of(
        sample, "target", weight=None, pos_weight=None, reduction="mean")
    return with_tensors("binary_cross_entropy_with_logits", [sample.input, target], {0: weight, 1: positive},
                        [reduction], constants=[weight, positive])


def embedding(sample):
    index, padding, most, _, by_frequency, sparse = arguments_of(
        sample, "index", padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    if most is not None:
        raise LeftOut("max_norm, which writes into the table")
    return Call("embedding", [index, sample.input], [padding], gradients=not by_frequency and not sparse)


def embedding_bag(sample):
    index, offsets, most, _, by_frequency, mode, sparse, weights, last, padding = arguments_of(
        sample, "index", offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
        sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None)
    if most is not None:
        raise LeftOut("max_norm, which writes into the table")
    return with_tensors("embedding_bag", [index, sample.input], {1: offsets, 3: weights}, [mode, last, padding],
                        gradients=not by_frequency and not sparse)


def attention(sample):
    key, value, mask, dropout, causal, scale, shared = arguments_of(
        sample, "key", "value", attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False)
    if dropout:
        raise LeftOut("dropout")
    # Of a score that outweighs all others f32 leaves a gradient of rounding alone.
    return with_tensors("scaled_dot_product_attention", [sample.input, key, value], {0: mask},
                        [causal, scale, shared], gradients=sample.input.dtype == torch.float64)


CALLS = {"matmul": product("matmul"), "bmm": product("bmm"), "mv": product("mv"), "dot": product("dot"),
         "outer": product("outer"), "einsum": einsum, "__rmatmul__": turned_product}
CALLS |= {"nn.functional." + name: call for name, call in {
    "layer_norm": layer_norm, "rms_norm": rms_norm, "group_norm": group_norm, "cross_entropy": cross_entropy,
    "nll_loss": nll_loss, "mse_loss": mse_loss, "smooth_l1_loss": smooth_l1_loss, "huber_loss": huber_loss,
    "binary_cross_entropy_with_logits": binary, "embedding": embedding, "embedding_bag": embedding_bag,
    "scaled_dot_product_attention": attention}.items()}

STEPS = 6
SIZES = ((4, 3), (5,)), ((2, 3, 4), (1,)), ((1, 6), ())


def drawn(dtype, sizes, seed, count):
    generator = torch.Generator().manual_seed(seed)
    return [[torch.randn(size, dtype=dtype, generator=generator) for size in sizes] for _ in range(count)]


def steps(function, optimiser, options):
    """Pairs for parameters of several sizes, in both dtypes; `options`: (torch's, ours)."""
    for dtype, sizes, (named, arguments) in itertools.product((torch.float64, torch.float32), SIZES, options):
        first, *grads = drawn(dtype, sizes, 7, STEPS + 1)
        params = [torch.nn.Parameter(tensor.clone()) for tensor in first]
        torchs = optimiser(params, **named)
        for grad in grads:
            for param, of in zip(params, grad):
                param.grad = of.clone()
            torchs.step()
        yield Call(function, [*first, *itertools.chain(*grads)], arguments), [param.detach() for param in params]


def sgd():
    names = ("lr", "momentum", "dampening", "weight_decay", "nesterov")
    options = [(dict(zip(names, values)), list(values)) for values in (
        (0.1, 0, 0, 0, False), (0.1, 0.9, 0, 0.01, False), (0.1, 0.9, 0.3, 0, False), (0.1, 0.9, 0, 0.1, True))]
    return steps("sgd", torch.optim.SGD, options)


def adams(function, optimiser):
    options = [(dict(lr=rate, betas=(a, b), eps=eps) | ({} if decay is None else {"weight_decay": decay}),
                [rate, a, b, eps, decay])
               for rate, a, b, eps, decay in ((1e-3, 0.9, 0.999, 1e-8, None), (0.1, 0.8, 0.95, 1e-3, 0.1))]
    return steps(function, optimiser, options)


def adafactor():
    options = [(dict(lr=rate, beta2_decay=decay, eps=(eps1, eps2), d=clip, weight_decay=weight),
                [rate, decay, eps1, eps2, clip, weight])
               for rate, decay, eps1, eps2, clip, weight in ((1e-2, -0.8, None, 1e-3, 1.0, 0.01),
                                                             (0.7, -0.5, 1e-4, 1e-2, 1.2, 0.1))]
    return steps("adafactor", torch.optim.Adafactor, options)


def clipping(function, by_torch, limits):
    for dtype, sizes, most in itertools.product((torch.float64, torch.float32), SIZES, limits):
        (grads,) = drawn(dtype, sizes, 9, 1)
        params = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in grads]
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        norm = by_torch(params, most)
        yield Call(function, grads, [most]), [param.grad for param in params] + ([] if norm is None else [norm])


def rates():
    def torchs(make):
        optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
        schedule = make(optimiser)
        for _ in range(25):
            yield schedule.get_last_lr()[0]
            optimiser.step()
            schedule.step()

    of = torch.optim.lr_scheduler
    series = [torchs(make) for make in (
        lambda o: of.ConstantLR(o, 0.25, 4), lambda o: of.LinearLR(o, 0.1, 0.9, 6), lambda o: of.StepLR(o, 3, 0.7),
        lambda o: of.ExponentialLR(o, 0.9), lambda o: of.CosineAnnealingLR(o, 10, 0.1),
        lambda o: of.SequentialLR(o, [of.LinearLR(o, 0.1, 1, 4), of.ExponentialLR(o, 0.9)], [4]))]
    for step, expected in enumerate(zip(*series)):
        yield Call("rates", [torch.tensor(step)]), [torch.tensor(rate, dtype=torch.float64) for rate in expected]


def smoothed():
    """What the samples of cross_entropy leave out: smoothing beside weights and ignored labels."""
    generator = torch.Generator().manual_seed(3)
    for dtype, sizes, weighted, reduction, kind in itertools.product(
            (torch.float64, torch.float32, torch.bfloat16, torch.float16), ((4, 3), (5, 3, 2)), (False, True),
            ("none", "sum", "mean"), ("labels", "ignored", "probabilities")):
        x = torch.randn(sizes, dtype=dtype, generator=generator)
        labels = torch.randint(0, 3, (sizes[0], *sizes[2:]), generator=generator)
        target = torch.randn(sizes, dtype=dtype, generator=generator).softmax(1) if kind == "probabilities" else labels
        weight = torch.rand(3, dtype=dtype, generator=generator) if weighted else None
        ignored = 1 if kind == "ignored" else -100
        options = {"ignore_index": ignored, "reduction": reduction, "label_smoothing": 0.3}

        def loss(x, target, weight=None, options=options):
            return [torch.nn.functional.cross_entropy(x, target, weight, **options)]
        yield with_tensors("cross_entropy", [x, target], {0: weight}, [ignored, reduction, 0.3], constants=[weight]), loss


MORE = {"cross_entropy, smoothed": smoothed, "optim.SGD": sgd, "optim.Adam": lambda: adams("adam", torch.optim.Adam),
        "optim.AdamW": lambda: adams("adamw", torch.optim.AdamW), "optim.Adafactor": adafactor,
        "clip_grad_norm_": lambda: clipping("clip_grad_norm", torch.nn.utils.clip_grad_norm_, (0.5, 100.0)),
        "clip_grad_value_": lambda: clipping("clip_grad_value", torch.nn.utils.clip_grad_value_, (0.5, 100.0)),
        "optim.lr_scheduler": rates}
