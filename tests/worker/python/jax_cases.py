"""Programs as JAX users write them, one process each (jax_test.py runs them): jax_cases.py CASE. RANK, WORLD_SIZE,
PORT and WATCH are set; what a process found is its line of JSON."""

import functools
import json
import logging
import os
import sys
import threading
import time

RANK, SIZE, WATCH = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ.get("WATCH", "")
CASE = sys.argv[1]
FOLDER = os.environ.get("FOLDER", "")
if CASE in ("devices_2", "mesh_2d", "local_collective"):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import shard_map  # noqa: E402
from jax.experimental import io_callback, multihost_utils  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{os.environ['PORT']}", SIZE, RANK)
if WATCH:
    import lockstep.jax
    watched = lockstep.jax.watch("audit" if WATCH == "audit" else "refuse", calls=WATCH == "calls", compile_once=WATCH == "once",
                                 deadline=float(os.environ.get("DEADLINE", "60")))

MESH = Mesh(np.array(jax.devices()), ("x",))
SHARDED, EVERYWHERE = NamedSharding(MESH, P("x")), NamedSharding(MESH, P())
OUT = []


def found(value):
    value = value.addressable_data(0) if isinstance(value, jax.Array) and not value.is_fully_addressable else value
    OUT.append(np.asarray(value, dtype=np.float64).round(9).tolist())


def rows(count=2, width=4, dtype=np.float32, of=RANK):
    """This process's part of a batch."""
    return (np.arange(count * width).reshape(count, width) + of).astype(dtype) / 8


def batch(local=None, mesh=MESH):
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), rows() if local is None else local)


def total(of, mesh=MESH, **options):
    """A jitted function that sums `of` of its argument over all rows."""
    def summed(x):
        return jax.lax.psum(jnp.sum(of(x)), "x")
    summed.__name__ = getattr(of, "__name__", "summed").replace("<lambda>", "summed")
    return jax.jit(shard_map(summed, mesh=mesh, in_specs=P("x"), out_specs=P()), **options)


double = total(lambda x: 2 * x)


def weights(width=4):
    return jax.device_put(np.linspace(-1, 1, width, dtype=np.float32).reshape(width, 1), EVERYWHERE)


def loss_of(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)


@jax.jit
def train(w, x):
    loss, gradient = jax.value_and_grad(loss_of)(w, x)
    return w - 0.1 * gradient, loss


def training(steps, w=None, first=0, each=lambda step, loss: None):
    w = weights() if w is None else w
    for step in range(first, first + steps):
        w, loss = train(w, batch(rows(of=RANK + step)))
        each(step, loss)
    found(w)
    return w


# Programs that are wrong. Each of them says in jax_test.py what is to be reported.

def constant():
    found(total(lambda x: x * (3 if RANK == 1 else 2))(batch()))


def static_argument():
    @functools.partial(jax.jit, static_argnames="layers")
    def forward(w, x, layers):
        for _ in range(layers):
            x = jnp.tanh(x @ w) @ w.T
        return x.sum()
    found(forward(weights(), batch(), layers=2 if RANK == 0 else 3))


def uneven_batch():
    w = weights()
    for step in range(3):
        last = step == 2 and RANK == SIZE - 1
        w, loss = train(w, batch(rows(1 if last else 2)))
        found(loss)


def branch_in_python():
    def grow(x):
        return x + 1

    def shrink(x):
        return x - 1
    found(total(grow if RANK == 0 else shrink)(batch()))


def cond_on_process():
    def branch(x):
        return jax.lax.cond(jax.process_index() == 0, lambda y: y * 2, lambda y: y - 1, x)
    found(total(branch)(batch()))


def set_order():
    names = list({"attention", "embedding", "head", "norm"})  # the processes have different hash seeds
    sizes = {"attention": 2, "embedding": 3, "head": 5, "norm": 7}

    def merged(x):
        for name in names:
            x = jnp.tanh(x) * sizes[name]
        return x
    found(total(merged)(batch()))


def x64_on_one():
    jax.config.update("jax_enable_x64", RANK == 1)
    found(total(lambda x: x * jnp.arange(4, dtype=float))(batch()))


def precision_on_one():
    if RANK == 1:
        jax.config.update("jax_default_matmul_precision", "highest")
    found(train(weights(), batch())[1])


def dtype_on_one():
    found(double(batch(rows(dtype=np.float16 if RANK == 1 else np.float32))))


def donated_on_one():
    step = jax.jit(lambda w, x: (w + x.sum(), x.mean()), donate_argnums=(0,) if RANK == 0 else ())
    found(step(weights(), batch())[0])


def sharding_on_one():
    step = jax.jit(lambda x: jnp.sort(x, axis=0) * 2, out_shardings=SHARDED if RANK == 0 else EVERYWHERE)
    found(step(batch()))


def device_order():
    devices = jax.devices() if RANK == 0 else jax.devices()[::-1]
    mesh = Mesh(np.array(devices), ("x",))
    x = jax.make_array_from_single_device_arrays((2 * SIZE, 4), NamedSharding(mesh, P("x")),
                                                 [jax.device_put(rows(), jax.local_devices()[0])])
    found(total(lambda x: x * 2, mesh)(x))


def compiler_option():
    fast = {"xla_cpu_enable_fast_math": RANK == 0}
    found(total(lambda x: x * 2, compiler_options=fast)(batch()))


def large_constant():
    mask = np.random.default_rng(RANK).normal(size=(2, 4)).astype(np.float32)  # a seed for each process
    found(total(lambda x: x * mask)(batch()))


def evaluates_alone():
    training(2)
    if RANK == 0:
        found(total(lambda x: x * x)(batch()))
    training(1)


def new_order():
    def first(x):
        return x + 1

    def second(x):
        return x * 5
    for each in (first, second) if RANK == 0 else (second, first):
        found(total(each)(batch()))


def known_order():
    one, other = total(lambda x: x + 1), total(lambda x: x * 5)
    found(one(batch()))
    found(other(batch()))
    for each in (one, other) if RANK == 0 else (other, one):
        found(each(batch()))


def fewer_batches():
    training(3 if RANK == 0 else 2)


def one_more_of_two():
    """A computation that both know, once more on one process while the other runs another known one."""
    one, other = total(lambda x: x + 1), total(lambda x: x * 5)
    found(one(batch()))
    found(other(batch()))
    if RANK == 0:
        found(one(batch()))
    found(other(batch()))


def exception():
    training(2, each=lambda step, loss: bad_sample() if RANK == 1 and step == 1 else None)
    training(1)


def bad_sample():
    raise ValueError("sample 17 has no label")


def fails_apart():
    """A process fails while the other is busy by itself."""
    training(2)
    if RANK == 0:
        bad_sample()
    time.sleep(4)


def killed():
    training(2)
    if RANK == 1:
        os.kill(os.getpid(), 9)
    training(1)


def stopped():
    training(2)
    if RANK == 1:
        os.kill(os.getpid(), 19)
    training(1)


def hangs_elsewhere():
    training(2)
    if RANK == 1:
        threading.Event().wait()
    training(1)


def restored_on_one():
    """Process 0 finds the checkpoint on its own disk, and begins at its step."""
    begin = 2 if RANK == 0 else 0
    training(4 - begin, first=begin)


def restored_schedule():
    begin = 2 if RANK == 0 else 0
    rate = 0.1 * 0.5 ** begin

    @jax.jit
    def step(w, x):
        return w - rate * jax.grad(loss_of)(w, x)
    found(step(weights(), batch()))


def half_of_four():
    """Of two pairs of processes one has another program on each process."""
    pair = RANK // 2
    mesh = Mesh(np.array(jax.devices()[2 * pair:2 * pair + 2]), ("x",))
    found(total(lambda x: x * (3 if RANK == 3 else 2), mesh)(batch(mesh=mesh)))


# Programs that are right.

def trains():
    training(5)


def flax_optax():
    import flax.linen as nn
    import optax

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(1)(nn.relu(nn.Dense(8)(x)))
    net, adam = Net(), optax.adam(1e-2)
    variables = jax.device_put(jax.tree.map(np.asarray, net.init(jax.random.key(0), np.zeros((1, 4), np.float32))), EVERYWHERE)
    state = jax.device_put(jax.tree.map(np.asarray, adam.init(variables)), EVERYWHERE)

    @jax.jit
    def step(variables, state, x):
        loss, gradients = jax.value_and_grad(lambda v: jnp.mean(net.apply(v, x) ** 2))(variables)
        updates, state = adam.update(gradients, state, variables)
        return optax.apply_updates(variables, updates), state, loss
    for _ in range(4):
        variables, state, loss = step(variables, state, batch())
        found(loss)


def local_work():
    """Each process compiles and runs what it likes on its own devices."""
    for size in range(2, 4 + 2 * RANK):
        found(jax.jit(lambda x: (x @ x.T).sum() * size)(jnp.ones((size, 3))))
    training(2)


def evaluates_locally():
    w = training(2)
    if RANK == 0:
        found(jax.jit(loss_of)(np.asarray(w.addressable_data(0)), rows(7)))
        time.sleep(1)
    training(2, w)


def compiles_alone():
    """One process compiles more, and runs it not."""
    if RANK == 1:
        jax.jit(lambda x: (x * x).sum()).lower(batch()).compile().cost_analysis()
    training(2)


def ahead_of_time():
    step = train.lower(weights(), batch()).compile()
    w = weights()
    for _ in range(3):
        w, loss = step(w, batch())
        found(loss)


def forgets():
    """One process compiles all anew."""
    w = training(2)
    if RANK == 0:
        jax.clear_caches()
    w = training(2, w)
    found(double(batch()))


def cache_on_one():
    if RANK == 0:
        jax.config.update("jax_compilation_cache_dir", os.path.join(FOLDER, "cache"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    training(2)


def logs_on_one():
    jax.config.update("jax_log_compiles", RANK == 7)
    training(4, each=lambda step, loss: found(loss) if RANK == 0 else None)
    OUT.clear()
    training(1)


def other_files():
    """The same program in another file, with other lines, on each process."""
    path = os.path.join(FOLDER, f"program_{RANK}.py")
    with open(path, "w") as file:
        file.write("#\n" * (3 * RANK) + "def squared(x):\n    return x * x\n")
    space = {}
    exec(compile(open(path).read(), path, "exec"), space)
    found(total(space["squared"])(batch()))


def slow_input():
    training(3, each=lambda step, loss: time.sleep(2) if RANK == 1 else None)


def slow_callback():
    """XLA calls a function of the program that sleeps, on all processes."""
    def slept(x):
        time.sleep(2.5)
        return np.asarray(x)
    step = total(lambda x: x * 2)

    @jax.jit
    def waits(x):
        return io_callback(slept, jax.ShapeDtypeStruct((), np.float32), x)
    found(waits(jnp.float32(RANK) * 0))
    found(step(batch()))


def callback_together():
    seen = []

    def summed(x):
        jax.debug.callback(lambda value: seen.append(float(value)), x.sum())
        return jax.lax.psum(x.sum(), "x")
    step = jax.jit(shard_map(summed, mesh=MESH, in_specs=P("x"), out_specs=P()))
    for _ in range(3):
        found(step(batch()))
    jax.effects_barrier()
    assert len(seen) == 3, seen


def ends_apart():
    w = training(2)
    if RANK == 0:
        found(np.asarray(w.addressable_data(0)))
        time.sleep(3)
        x = jnp.ones((600, 600))
        until = time.monotonic() + 3
        while time.monotonic() < until:
            x = jax.jit(lambda x: jnp.tanh(x @ x))(x)
        x.block_until_ready()


def late_last():
    """A process that others have long waited for ends right after its last step."""
    w = training(2)
    if RANK == 1:
        time.sleep(4)
    training(1, w)


def caught():
    for step in range(3):
        try:
            if RANK == 1 and step == 1:
                bad_sample()
        except ValueError:
            pass
        found(double(batch()))


def pairs():
    """Two pairs of processes with different programs; then all together."""
    pair = RANK // 2 if SIZE == 4 else 0
    mesh = Mesh(np.array(jax.devices()[2 * pair:2 * pair + 2]), ("x",))
    for _ in range(2 + pair):
        found(total(lambda x: x * (2 + pair), mesh)(batch(mesh=mesh)))
    training(2)


def loader():
    import queue
    ready = queue.Queue(2)

    def load():
        for step in range(4):
            ready.put(jax.device_put(rows(of=step), jax.local_devices()[0]))
        ready.put(None)
    threading.Thread(target=load, daemon=True).start()
    while (local := ready.get()) is not None:
        found(double(batch(np.asarray(local))))


def hosts():
    multihost_utils.sync_global_devices("begin")
    found(multihost_utils.broadcast_one_to_all(np.full(3, RANK + 5)))
    found(multihost_utils.process_allgather(np.full(2, RANK)))
    training(1)
    multihost_utils.sync_global_devices("end")


def barrier_late():
    if RANK == 0:
        time.sleep(2)
    jax._src.distributed.global_state.client.wait_at_barrier("late", 60_000)
    training(1)


def elementwise_alone():
    """A computation without collectives on one process only."""
    x = batch()
    if RANK == 0:
        found(jax.jit(lambda x: x * 2)(x))
    training(2)


def long_step():
    """Some seconds of computation in one call."""
    def worked(x):
        y = jax.lax.fori_loop(0, 300, lambda _, y: jnp.tanh(y @ y), jnp.ones((400, 400)) * x.sum())
        return x * y[0, 0]
    found(total(worked)(batch()))


def scans():
    @jax.jit
    def unrolled(w, x):
        def body(carry, _):
            return jax.checkpoint(lambda c: jnp.tanh(c @ w @ w.T))(carry), carry.mean()
        return jax.lax.scan(body, x, length=5)[1].sum()
    found(jax.grad(unrolled)(weights(), batch()))


def devices_2():
    found(double(batch()))
    training(2)


def mesh_2d():
    mesh = Mesh(np.array(jax.devices()).reshape(SIZE, 2), ("x", "y"))
    step = jax.jit(shard_map(lambda x: jax.lax.psum(x.sum(), ("x", "y")), mesh=mesh, in_specs=P("x", "y"), out_specs=P()))
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x", "y")), rows())
    for _ in range(2):
        found(step(x))


def random_keys():
    key = jax.random.fold_in(jax.random.key(3), RANK)
    local = np.asarray(jax.random.normal(key, (2, 4)))
    found(double(batch(local)))


def forks():
    for status in range(3):  # a child that does more may wait for ever: it has none of the parent's threads
        child = os.fork()
        if child == 0:
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status
        training(1)


def subprocesses():
    import subprocess
    subprocess.run([sys.executable, "-c", "import time; time.sleep(1)"], check=True)
    training(1)


def compiles_once():
    @jax.jit
    def deep(w, x):
        for layer in range(30):
            x = jnp.tanh(x @ w) * (layer + 1)
        return jnp.sum(x)
    w = multihost_utils.host_local_array_to_global_array(np.eye(4, dtype=np.float32), MESH, P())
    found(jax.grad(deep)(w, batch()))
    found(deep(w, batch()))
    jax.clear_caches()
    found(deep(w, batch()))
    if WATCH == "once":
        assert (watched.loaded > 0) == (RANK > 0), watched.loaded


def many_shapes():
    """Each process meets the sizes in the same order, with caches of different ages."""
    for size in (1, 2, 3, 2, 1, 4):
        found(double(batch(rows(size))))


def print_alone():
    w = training(1)
    if RANK == 0:
        print("loss", float(np.asarray(w.addressable_data(0)).sum()))


if CASE == "cache_on_one" and RANK == 0:
    os.makedirs(os.path.join(FOLDER, "cache"), exist_ok=True)
globals()[CASE]()
print(json.dumps({"rank": RANK, "out": OUT}), flush=True)
