"""serving_vllm.py on vLLM's own functions, in 2 to 9 processes: batches that the ranks coordinate by gloo and by lockstep
are the same; a rank that does not come is named by the deadline, and so is one that comes from another line. Needs PyTorch,
the Python files of vLLM's wheel on PYTHONPATH, and serving.txt, but no GPU; skipped aloud without them.
usage: serving_test.py [CASE...]"""

import contextlib
import dataclasses
import multiprocessing
import os
import pathlib
import random
import re
import sys
import tempfile
import time
import types

from torch_ranks import free_port, run_cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))
try:
    import lockstep
    import serving_vllm
    import torch
    import torch.distributed as dist
    from vllm.distributed import parallel_state
    from vllm.v1.worker import dp_utils as v1
    from vllm.v1.worker.gpu import dp_utils as v2
    from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor
    from vllm.config.compilation import CUDAGraphMode
except ImportError as missing:
    print(f"serving_test: SKIPPED ALOUD: {missing}", file=sys.stderr)
    sys.exit(0)

STEPS = 200
DEADLINE, AWAY = 2.0, 12.0  # seconds


class Graphs:
    """In place of V2's manager of graphs: one for each power of two."""

    def dispatch(self, num_reqs, num_tokens, uniform_token_count, **others):
        return BatchExecutionDescriptor(CUDAGraphMode.FULL, 1 << (num_tokens - 1).bit_length(), num_reqs)


def config_of(rank, size):
    return types.SimpleNamespace(
        data_parallel_size=size, data_parallel_rank=rank, disable_nccl_for_dp_synchronization=True, use_ubatching=True,
        num_ubatches=2, dbo_decode_token_threshold=8, dbo_prefill_token_threshold=32)


def batch_v1(draw, config):
    """A random batch, or the dummy one of a rank without work."""
    tokens = draw.choice([1, draw.randint(1, 100), draw.randint(90, 100), draw.randint(2 ** 20, 2 ** 24)])
    padded, decode = draw.choice([tokens, -(-tokens // 8) * 8]), draw.random() < 0.5
    return v1.coordinate_batch_across_dp(
        tokens, allow_microbatching=draw.random() < 0.9, parallel_config=config, uniform_decode=decode,
        num_tokens_padded=draw.choice([padded, None]), cudagraph_mode=draw.choice([0, 1, 2, 2]))


def batch_v2(draw, config):
    tokens, requests = draw.choice([(0, 0), (draw.randint(1, 100), draw.randint(1, 8)), (2 ** 24, 2 ** 10), (64, 8)])
    mode = CUDAGraphMode(draw.choice([0, 1, 2, 2]))
    return v2.sync_cudagraph_and_dp_padding(
        Graphs(), BatchExecutionDescriptor(mode, tokens, requests), tokens, requests, draw.choice([None, 1, 8, 8]),
        config.data_parallel_size, config.data_parallel_rank, max_query_len=draw.choice([None, 8, 2 ** 20]),
        parallel_config=config, allow_ubatching=draw.random() < 0.9, uniform_decode=draw.random() < 0.5,
        allow_skip_drafts=draw.random() < 0.8)


def plain(value):
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return (value.dtype, value.tolist()) if isinstance(value, torch.Tensor) else value


def steps(config, batch):
    """Returns what each step came to, and the seconds of all. In every other step, all ranks have the same batch."""
    come_to, began = [], time.monotonic()
    for step in range(STEPS):
        draw = random.Random(step if step % 2 else 1000 * step + config.data_parallel_rank)
        come_to.append(plain(batch(draw, config)))
    return come_to, time.monotonic() - began


def same(rank, size):
    config = config_of(rank, size)
    batches = {"V1": batch_v1, "V2": batch_v2}
    before = {runner: steps(config, batch) for runner, batch in batches.items()}
    serving_vllm.install(deadline=30)
    for runner, batch in batches.items():
        batch_v1(random.Random(1), config)  # the ranks meet
        after, seconds = steps(config, batch)
        assert after == before[runner][0], [both for both in zip(before[runner][0], after) if both[0] != both[1]][0]
        kinds = len({str(one) for one in after})
        if rank == 0:
            print(f"{runner}: {STEPS} steps, {kinds} kinds, {1e6 * before[runner][1] / STEPS:.0f} us with gloo, "
                  f"{1e6 * seconds / STEPS:.0f} with lockstep")
    v1_steps, v2_steps = before["V1"][0], before["V2"][0]
    assert any(microbatches for microbatches, _, _ in v1_steps)
    assert any(mode > 0 for _, _, mode in v1_steps)  # padded to one number
    assert any(mode == 0 and len(set(tokens)) > 1 for _, (_, tokens), mode in v1_steps)
    assert any(state is None for _, state in v2_steps), "no rank has work"
    assert {batch["num_ubatches"] for batch, _ in v2_steps} == {1, 2}
    assert any(state and state["eager"] and len(set(state["num_tokens_across_dp"][1])) > 1 for _, state in v2_steps)


def absent(rank, size):
    config, draw = config_of(rank, size), random.Random(1)
    if os.environ["WITH"] == "lockstep":
        serving_vllm.install(DEADLINE)
    batch_v1(draw, config)
    if rank == size - 1:
        time.sleep(AWAY)
    else:
        print(f"waits from {time.monotonic()}")
        batch_v1(draw, config)


def other_lines(rank, size):
    config, draw = config_of(rank, size), random.Random(1)
    if os.environ["WITH"] == "lockstep":
        serving_vllm.install(DEADLINE)
    if rank == size - 1:
        v1.coordinate_batch_across_dp(3, False, config)  # as if one rank drafted
    else:
        batch_v1(draw, config)


def rank_of(body, rank, size, port, output):
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1), os.dup2(descriptor, 2)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)
    dist.init_process_group("gloo")
    parallel_state._DP = parallel_state.init_model_parallel_group(
        [list(range(size))], rank, "gloo", group_name="dp", use_device_communicator=False)
    try:
        body(rank, size)
        code = 0
    except lockstep.Error as error:
        print(error)
        code = error.exit_code
    except (RuntimeError, AssertionError) as error:
        print(f"{type(error).__name__}: {error}")
        code = 1
    with contextlib.suppress(lockstep.Error):
        for group in list(lockstep.Group.opened) if code == 0 else ():
            group.finish()
    os._exit(code)


@dataclasses.dataclass
class Outcome:
    codes: list  # of the ranks
    texts: list
    ended: list  # when each rank, and those before it, had ended

    def waited(self):
        return self.ended[0] - float(re.search(r"waits from (\S+)", self.texts[0])[1])


def run(body, size, way="lockstep"):
    """Each rank is a copy of this process, which has imported vLLM once."""
    os.environ["WITH"], port, fork = way, free_port(), multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        outputs = [os.path.join(folder, str(rank)) for rank in range(size)]
        ranks = [fork.Process(target=rank_of, args=(body, rank, size, port, outputs[rank])) for rank in range(size)]
        for process in ranks:
            process.start()
        ended = []
        for process in ranks:
            process.join(100)
            ended.append(time.monotonic())
            if process.exitcode is None:
                process.kill()
                process.join()
        texts = [pathlib.Path(output).read_text() for output in outputs]
        return Outcome([process.exitcode for process in ranks], texts, ended)


def test_same(size):
    came = run(same, size)
    assert came.codes == [0] * size, came
    return "; ".join(line for line in came.texts[0].splitlines() if line[:1] == "V")


def test_absent(size):
    alone, came = run(absent, size, "gloo"), run(absent, size)
    assert alone.waited() > AWAY - 2, alone  # until that rank's process has ended
    assert 0 not in alone.codes[:-1] and not any(f"ank {size - 1}" in text for text in alone.texts), alone
    text = "\n".join(came.texts)
    assert came.codes == [4] * size and came.waited() < DEADLINE + 4, came
    assert f"Rank {size - 1} did not come" in text and re.search(r"agree\(\) on serving_test.py:\d+", text), came
    return f"gloo waits for {alone.waited():.1f} s; with lockstep all end with 4 after {came.waited():.1f} s"


def test_other_lines(size):
    alone, came = run(other_lines, size, "gloo"), run(other_lines, size)
    assert alone.codes == [0] * size, alone  # unnoticed
    assert came.codes == [3] * size, came
    others = "rank 0" if size == 2 else f"ranks 0-{size - 2}"
    line = r"agree\(\) on serving_test.py:(\d+)[^;]*"
    for text in came.texts:
        lines = re.search(rf"FRAME_MISMATCH: .*{others}: {line}; rank {size - 1}: {line}", text)
        assert lines and lines[1] != lines[2], came
    return f"lines {lines[1]} and {lines[2]}"


if __name__ == "__main__":
    run_cases({f"{name} {size}": lambda test=test, size=size: test(size)
               for name, test, sizes in (("same", test_same, (2, 4, 5, 9)), ("absent", test_absent, (2, 4)),
                                         ("other_lines", test_other_lines, (2, 4))) for size in sizes})
