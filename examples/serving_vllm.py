"""vLLM's data-parallel batches, agreed by lockstep: what its ranks all-reduce before each step comes by lockstep.agree(),
named by vLLM's line that asks, with a deadline. In each worker, before its first step:

    import serving_vllm
    serving_vllm.install(deadline=300)

Replaces the all-reduces of vllm.v1.worker.dp_utils and vllm.v1.worker.gpu.dp_utils (model runners V1 and V2; seen with
vLLM 0.33). The tables that they return are the same. Limits: one agree() serves eight ranks of V1 or four of V2, so 16
ranks take two or four; numbers are below 2^29 - 1; elastic expert parallelism makes groups that torch does not know.
"""

import os
import sys

import lockstep.torch
import torch
from vllm.v1.worker import dp_utils as v1
from vllm.v1.worker.gpu import dp_utils as v2

V1_BITS = 29, 29, 2, 2  # of tokens, padded tokens, microbatching, graph mode; the numbers are from -1
V2_BITS = 30, 2, 30, 30, 2, 30, 2  # of tokens, graph mode, tokens a request, longest query, microbatching, requests, no drafts
WORD = 63  # bits


class Batches:
    def __init__(self, deadline):
        self._deadline, self._group = deadline, None

    def run_ar(self, should_ubatch, orig_num_tokens_per_ubatch, padded_num_tokens_per_ubatch, cudagraph_mode, parallel_config):
        column = [orig_num_tokens_per_ubatch, padded_num_tokens_per_ubatch, int(should_ubatch), cudagraph_mode]
        return self._table(column, V1_BITS, parallel_config.data_parallel_rank)

    def cpu_all_reduce_(self, table):
        rank = v1.get_dp_group().rank_in_group
        return table.copy_(self._table(table[:, rank].tolist(), V2_BITS, rank))

    def _table(self, column, bits, rank):
        """Collective. Returns the columns of all ranks: bitor, where each rank has the words of its own place."""
        self._group = self._group or lockstep.torch.group(v1.get_dp_group().cpu_group, self._deadline)
        packed, shifts, count = 0, [sum(bits[i + 1:]) for i in range(len(bits))], -(-sum(bits) // WORD)
        for number, shift, width in zip(column, shifts, bits):
            assert -1 <= number < 2 ** width - 1, f"serving_vllm: one of {column} is too large"
            packed |= int(number) + 1 << shift
        mine, words = [packed >> WORD * i & 2 ** WORD - 1 for i in range(count)], []
        for first in range(0, self._group.size, 8 // count):
            ranks = range(first, min(self._group.size, first + 8 // count))
            words += lockstep.agree(_line(), group=self._group, deadline=self._deadline,
                                    bitor=[word if to == rank else 0 for to in ranks for word in mine])
        columns = [sum(word << WORD * i for i, word in enumerate(words[at:at + count])) for at in range(0, len(words), count)]
        return torch.tensor([[(packed >> shift) % 2 ** width - 1 for packed in columns] for shift, width in zip(shifts, bits)],
                            dtype=torch.int32)


def _line():
    """Returns "model_runner.py:1832", the line of vLLM that called dp_utils."""
    frame = sys._getframe(1)
    while os.path.basename(frame.f_code.co_filename) in ("serving_vllm.py", "dp_utils.py"):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def install(deadline=300.0):
    batches = Batches(deadline)
    v1._run_ar, v2.get_dp_group = batches.run_ar, lambda: batches
