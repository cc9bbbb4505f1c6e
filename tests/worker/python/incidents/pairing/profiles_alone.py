"""The first process alone runs its pipeline once more, to profile it; the others go on and end (maxdiffusion 435).

class: pairing
framework: jax
verdict: Stuck
ranks: 2 3
lines: run
odd: 0
"""
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", ranks, rank)
mesh = Mesh(np.array(jax.devices()), ("x",))
is_profiler_on = jax.process_index() == 0


@jax.jit
def pipeline(w, x):
    for _ in range(4):
        x = jnp.tanh(x @ w)
    return x.mean()


w = jax.device_put(np.eye(4, dtype=np.float32), NamedSharding(mesh, P()))
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.ones((2, 4), np.float32))


def generate():
    print("step", flush=True)
    return float(pipeline(w, x))  # [run]


print("value", generate(), flush=True)
if is_profiler_on:
    print("delivered", generate(), flush=True)
