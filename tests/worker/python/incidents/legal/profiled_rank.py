"""One rank runs under the profiler and ends later, when it has written its trace; the other writes thousands of lines.

class: legal
verdict: none
ranks: 2
"""
import contextlib
import logging
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("gloo")
rank = dist.get_rank()
logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(levelname)s %(message)s")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
profiler = profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) if rank == 1 else None

with profiler or contextlib.nullcontext():
    for step in range(10):
        print("step", step, flush=True)
        optimizer.zero_grad()
        loss = model(torch.full((3, 4), 0.1 * (step + rank))).square().mean()
        loss.backward()
        optimizer.step()
        for i in range(300):
            logging.info("step %d, row %d: loss %.6f", step, i, float(loss))
        print("value", float(loss), flush=True)
if profiler is not None:
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
        print("value", os.path.exists(os.path.join(folder, "trace.json")), flush=True)
