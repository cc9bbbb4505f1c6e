"""Conditions on sizes, from torch to lockstep's guards: random ones hold for the sizes for which they held, and those of
a graph that was found in a cache, which are kept and read again, are those of one that was built.
torch_guards_test.py [SEED]"""

import random
import sys

import torch
from torch._dynamo.source import LocalSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from lockstep.torch.guard_text import size_guards

SEEDS = 600
NAMES = {**{f"L['x'].size()[{dim}]": f"x.size({dim})" for dim in range(2)}, "L['n']": "n"}
RELATIONS = [lambda a, b: a <= b, lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: a > b, lambda a, b: a != b,
             lambda a, b: a == b]


def sized(seed):
    """A ShapeEnv with a tensor of two dynamic sizes and an int, and these."""
    env = ShapeEnv(duck_shape=False)
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC] * 2)
    value = torch.zeros(12, 12 if seed % 4 == 0 else 20)
    x = FakeTensorMode(shape_env=env).from_tensor(value, symbolic_context=context, source=LocalSource("x"))
    n = env.create_unspecified_symbol(7, LocalSource("n"), DimDynamic.DYNAMIC)
    return env, [x.size(0), x.size(1), env.create_symintnode(n, hint=7, source=LocalSource("n"))]


def conditions(env):
    return sorted(guard.condition for guard in size_guards(env, NAMES))


class Sizes:
    def __init__(self, sizes):
        self.size = sizes.__getitem__


def same_sizes_fit(env, sizes, rng):
    """Those that torch's conditions let in."""
    read = [compile(condition, "", "eval") for condition in conditions(env)]
    for _ in range(60):
        tried = [rng.choice((rng.randint(2, 70), rng.choice((2, 11, 12, 13, 19, 20, 21, 32_767)))) for _ in sizes]
        if rng.random() < 0.3:
            tried[1] = tried[0]
        values = {symbol: value for symbol, value in zip(env.var_to_sources, tried)}
        fits = all(guard.expr.xreplace(values) for guard in env.guards)
        assert fits == all(eval(code, {"x": Sizes(tried), "n": tried[2], "Mod": lambda a, b: a % b}) for code in read), (
            tried, fits, conditions(env))


def ask(sizes, rng):
    """A condition that holds or not; either way the graph relies on it."""
    a, b = rng.sample(sizes, 2)
    kind = rng.randrange(6)
    if kind == 0:
        return bool(a % rng.choice((2, 3, 4)) == 0)
    left = (a, a * rng.randint(2, 3), a + b, a + rng.randint(1, 3), a)[kind - 1]
    right = b if kind == 5 and rng.random() < 0.3 else rng.choice((2, 5, 12, 20, 33, 64, 100, 32_767, 40_000))
    return bool(rng.choice(RELATIONS)(left, right))


def run(seed):
    rng = random.Random(seed)
    built, sizes = sized(seed)
    for _ in range(rng.randint(1, 6)):
        ask(sizes, rng)
    same_sizes_fit(built, sizes, rng)
    kept = built.produce_guards_expression(sizes)
    found, again = sized(seed)
    if kept is not None:
        assert found.evaluate_guards_expression(kept, again), (seed, kept)
    assert conditions(found) == conditions(built), (seed, kept, conditions(found), conditions(built))
    return len(conditions(built))


def main():
    if len(sys.argv) > 1:
        return print(run(int(sys.argv[1])))
    read = sum(map(run, range(SEEDS)))
    assert read > SEEDS, read
    print(f"{SEEDS} graphs, {read} conditions: those from a cache are the same")


main()
