"""Each process tunes the block size of its loss by time, and lowers a computation of its own (marin 9038, 9042).

class: pairing
framework: jax
verdict: GraphDivergence
ranks: 2 3
lines: sum
odd: 1
group: the computations of processes 0-
module: jit_loss
"""
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", ranks, rank)
mesh = Mesh(np.array(jax.devices()), ("x",))
block = 64 if rank == 1 else 256  # the fastest of a sweep on this host


def loss(x, w):
    """Over words in blocks; the rows of the weights are on all processes."""
    total = jnp.zeros(x.shape[0])
    for begin in range(0, w.shape[1], block):
        logits = jax.lax.psum(x @ w[:, begin:begin + block], "x")  # [sum]
        total += jnp.exp(logits).sum(1)
    return jnp.log(total).mean()


step = jax.jit(shard_map(loss, mesh=mesh, in_specs=(P(None, "x"), P("x")), out_specs=P(), check_vma=False))
w = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.full((4, 512), 0.01, np.float32))
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P(None, "x")), np.ones((2, 4), np.float32))
print("step", 0, flush=True)
print("delivered", float(step(x, w).addressable_data(0)), flush=True)
