"""Each process draws the number of a group of fused operations, and lowers a computation of its own (maxtext 3041; marin 9042).

class: pairing
framework: jax
verdict: GraphDivergence
ranks: 2 3
lines: fused
group: the computations of processes 0-
module: jit_step
"""
import os
import random

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", ranks, rank)
mesh = Mesh(np.array(jax.devices()), ("x",))
random.seed(f"{rank} of this host")  # as by the clock, but in every run


@jax.jit
def step(x):
    with set_xla_metadata(mosaic_fusion_group=str(random.randint(0, 1 << 30))):
        y = jnp.tanh(x)  # [fused]
    return (y * y).sum()


x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.full((2, 4), 0.5, np.float32))
print("step", 0, flush=True)
print("value", float(step(x)), flush=True)
