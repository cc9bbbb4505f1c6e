"""Kernels that inductor's autotuner picks under noise, on 2 and 3 ranks: with watch(autotune=True) all ranks take one,
without it a pick that differs is reported; a rank that does not tune is not waited for. torch_picks_test.py [CASE...]"""

import json
import os
import subprocess
import sys

from torch_ranks import free_port, run_cases

#: What the autotuner has "measured": rank r finds choice r % 2 the faster one.
FAST, SLOW = 1.0, 2.0


def rank():
    """One rank of a case: prints its pick and what it was told."""
    import torch
    import torch.distributed as dist
    from torch._dynamo.utils import counters
    from torch._inductor import config, select_algorithm

    import lockstep.torch

    case, number = os.environ["CASE"], int(os.environ["RANK"])
    config.max_autotune_gemm, config.max_autotune_gemm_backends = True, "CPP,ATEN"
    config.autotune_num_choices_displayed = 0
    measured = []

    def noise(times, name, *_):
        for at, choice in enumerate(sorted(times, key=lambda choice: choice.hash_key())):
            times[choice] = FAST if at == number % 2 else SLOW
        measured.append(name)

    select_algorithm.add_feedback_saver(noise)
    told = []
    dist.init_process_group("gloo")
    with lockstep.torch.watch(report=lambda finding: told.append(finding.message), autotune=case != "told", deadline=20):
        x = torch.ones(3, 48, 48)
        if case != "alone" or number == 0:
            torch.compile(torch.bmm)(x, x)
        total = torch.ones(1)
        dist.all_reduce(total)
    saver = select_algorithm.get_algorithm_selector_cache().feedback_saver_fns
    print(json.dumps({"pick": counters["inductor"]["cpp_templated_kernel_counter"], "measured": measured,
                      "told": told, "left": len(saver), "total": total.item()}))
    dist.destroy_process_group()


def run(case, size):
    environment = {**os.environ, "CASE": case, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(),
                   "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank"], env={**environment, "RANK": str(number)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for number in range(size)]
    ends = [process.communicate(timeout=200) for process in ranks]
    assert [process.returncode for process in ranks] == [0] * size, ends
    out = [json.loads(out.splitlines()[-1]) for out, _ in ends]
    assert all(end["total"] == size and end["left"] == 1 for end in out), out
    return out


def one_pick(size):
    out = run("one", size)
    assert all(end["measured"] == ["bmm"] for end in out), out
    assert len({end["pick"] for end in out}) == 1 and not any(end["told"] for end in out), out
    return f"all of {size} ranks take one"


def told():
    out = run("told", 2)
    assert {end["pick"] for end in out} == {0, 1}, out
    texts = [text for end in out for text in end["told"]]
    assert len(texts) == 1 and "picks the kernel " in texts[0] and "bmm of torch.float32 [3, 48, 48]" in texts[0], out
    assert texts[0].endswith("lockstep.torch.watch(autotune=True) makes all ranks take one"), out
    return texts[0]


def alone():
    out = run("alone", 2)
    assert [end["measured"] for end in out] == [["bmm"], []] and not any(end["told"] for end in out), out
    return "a rank that does not tune is not waited for"


if __name__ == "__main__":
    if sys.argv[1:] == ["--rank"]:
        rank()
    else:
        run_cases({"one": lambda: one_pick(2), "one_of_3": lambda: one_pick(3), "told": told, "alone": alone})
