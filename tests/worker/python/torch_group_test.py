"""Ranks of a PyTorch job: groups by torch.distributed, plans on real tensors. For torchrun with any number
of ranks: torchrun --nproc N torch_group_test.py; or alone, `torch_group_test.py spawn N`."""

import os
import sys

import numpy  # noqa: F401 - its threads are limited too
import threadpoolctl
import torch
import torch.distributed as dist

import lockstep
import lockstep.torch
from lockstep import _library
from lockstep.torch import rendezvous


def main() -> None:
    before = dict(os.environ)
    if dist.get_world_size() > 1:  # the first rank stays away: the others name it
        try:
            if dist.get_rank() > 0:
                lockstep.torch.group(deadline=0.3)
                raise AssertionError("rank 0 was not there")
            rendezvous._opened["lockstep/" + ",".join(map(str, range(dist.get_world_size())))] = 1
        except RuntimeError as error:
            assert "rank 0 did not come to lockstep.torch.group() within 1.5 s" in str(error), error
        dist.barrier()
    threads = os.environ.pop("OMP_NUM_THREADS", None)
    torch.set_num_threads(64)
    threadpoolctl.ThreadpoolController().limit(limits=8)  # numpy's own
    ranks = lockstep.torch.group(deadline=30)
    share = 64 if dist.get_world_size() == 1 else max(
        1, min(len(os.sched_getaffinity(0)), os.cpu_count() // dist.get_world_size()))
    assert torch.get_num_threads() == share, (torch.get_num_threads(), share)
    pools = threadpoolctl.threadpool_info()
    assert any(pool["internal_api"] == "openblas" for pool in pools), pools
    assert share == 64 or all(pool["num_threads"] <= share for pool in pools), pools
    torch.set_num_threads(1)
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = threads
    assert dict(os.environ) == before, "the environment is as it was"
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (ranks.rank, ranks.size) == (rank, size)
    assert _library.native is not None and hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    built = []

    def build(entry, decision):
        built.append(decision.text.split(" hint")[0])
        return lambda x: float(x.sum())

    step = lockstep.agreed(lambda x: 0.0, ranks, name="step", build=build)
    for call in range(6):
        rows = 12 if call < 2 else 2 + (3 * rank + 5 * call) % 7
        assert step(torch.ones(rows, 4)) == 4.0 * rows
    mesh = dist.device_mesh.init_device_mesh("cpu", (1, size), mesh_dim_names=("dp", "tp"))
    with lockstep.torch.group(mesh["tp"]) as over_a_dim:
        assert (over_a_dim.rank, over_a_dim.size) == (rank, size)
    # On one rank the data of a parameter is swapped behind the object's back.
    weights = torch.nn.Parameter(torch.zeros(3, 4))
    of_weights = lockstep.agreed(lambda w: None, ranks, name="weights")
    of_weights(weights), of_weights(weights)
    assert not of_weights.last.is_new
    if rank == size - 1:
        weights.data = torch.zeros(5, 4)
    of_weights(weights)
    assert of_weights.last.is_new, "an agreed miss"
    inputs = of_weights.last.decision.inputs
    assert inputs == {"w": ["s0", 4]}, inputs
    if rank == size - 1:
        weights.data = torch.zeros(5, 4, dtype=torch.float64)
    try:
        of_weights(weights)
        assert size == 1
    except lockstep.DtypeMismatch as error:
        assert "w" in error.source, error
    # A transposed tensor has other strides, and the sizes of its own.
    assert step(torch.ones(4, 6).t()) == 24.0
    # Two sets of ranks, each a group of its own.
    if size > 1:
        sets = [list(range(size // 2)), list(range(size // 2, size))]
        made = [dist.new_group(members) for members in sets]
        mine = int(rank >= size // 2)
        try:
            lockstep.torch.group(made[1 - mine])
            raise AssertionError("not a member")
        except RuntimeError as error:
            assert "not in the given process group" in str(error)
        with lockstep.torch.group(made[mine], deadline=30) as part:
            assert part.size == len(sets[mine])
            assert part.all(True) and part.any(rank == sets[mine][0])
    texts = [None] * size
    dist.all_gather_object(texts, built)
    assert all(text == built for text in texts), texts
    ranks.finish()
    ranks.close()
    dist.destroy_process_group()
    print(f"rank {rank} of {size}: {len(built)} versions")


def spawned(rank: int, size: int, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["spawn"]:
        import torch.multiprocessing
        count = int(sys.argv[2])
        torch.multiprocessing.spawn(spawned, (count, 34000 + os.getpid() % 700), count)
    else:
        try:
            lockstep.torch.group()
            raise AssertionError("without init_process_group")
        except RuntimeError as error:
            assert "init_process_group" in str(error)
        dist.init_process_group("gloo")
        main()
