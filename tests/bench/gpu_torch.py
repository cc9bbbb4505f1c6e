#!/usr/bin/env python3
"""The transformer block and the MoE step of gpu_bench by PyTorch, eager and torch.compile, on the same
GPU in the same run: medians and their ratios. Both sides start from the same numbers, in f32 without
TF32, and no ratio is told unless the losses of their first two steps agree. Where PyTorch, its CUDA or a
GPU is missing it says which, and exits with 7; with --check it compares losses only, PyTorch's on this
processor.

usage: gpu_torch.py GPU_BENCH [--tiny] [--check] [--out FILE.json]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SKIPPED, ENVIRONMENT = 77, 7
RATE, VOCABULARY, CLASSES, STEPS = 1e-3, 257, 256, 5
AGREE = 2e-3  # relative; a router's near ties may fall either way


def ours(arguments, name, environment=None):
    """The benchmark's entry in gpu_bench's JSON."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [arguments.gpu_bench, f"--benchmark_filter=^{name}/", f"--benchmark_out={out}",
                   "--benchmark_out_format=json"] + (["--tiny"] if arguments.tiny else [])
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        if run.returncode != 0:
            fail(run.stderr.strip().splitlines()[-1])
        with open(out) as file:
            entry = json.load(file)["benchmarks"][0]
    if entry.get("error_occurred"):
        fail(f"{name}: {entry['error_message']}")
    return entry


def fail(what):
    print(f"gpu_torch: {what}", file=sys.stderr)
    sys.exit(ENVIRONMENT)


class Peer:
    """A model by PyTorch: parameters as gpu_models.cpp makes them, and a step on them."""

    def __init__(self, torch, device, shape):
        self.torch, self.device = torch, device
        self.lines, self.length, self.width, self.hidden, self.experts = (
            int(shape[k]) for k in ("lines", "length", "width", "hidden", "experts"))

    def values(self, sizes, number):
        """Element i of tensor `number`, in [-0.025, 0.025)."""
        torch = self.torch
        count = 1
        for size in sizes:
            count *= size
        if len(sizes) == 1:
            return torch.ones(sizes, device=self.device)
        mixed = (torch.arange(1, count + 1, dtype=torch.int64) * 2654435761 + number * 40503 * 65536) % 2**32
        return ((mixed.double() * 2.0**-32 - 0.5) * 0.05).float().reshape(sizes).to(self.device)

    def normalised(self, x, scale):
        return x * self.torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * scale

    def attention(self, x, norm, query, key, value, out):
        torch = self.torch
        y = self.normalised(x, norm)
        scores = (y @ query) @ (y @ key).transpose(1, 2) * x.shape[2] ** -0.5
        place = torch.arange(x.shape[1], device=x.device)
        scores = torch.where(place[:, None] >= place[None, :], scores, -1e30)
        return torch.softmax(scores, 2) @ (y @ value) @ out


class Block(Peer):
    def __init__(self, *of):
        super().__init__(*of)
        w, h = self.width, self.hidden
        sizes = [[w], [w, w], [w, w], [w, w], [w, w], [w], [w, h], [h, w]]
        self.parameters = [self.values(s, i).requires_grad_() for i, s in enumerate(sizes)]
        self.state = []
        self.inputs = [self.values([self.lines, self.length, w], 99)]

    def loss(self, p, x):
        y = x + self.attention(x, *p[:5])
        z = y + self.torch.relu(self.normalised(y, p[5]) @ p[6]) @ p[7]
        return (z * z).mean()

    @staticmethod
    def update(p, state, g):
        return [a - b * RATE for a, b in zip(p, g)], []


class MoeStep(Peer):
    def __init__(self, *of):
        super().__init__(*of)
        torch, w, cells = self.torch, self.width, self.lines * self.length
        sizes = [[VOCABULARY, w], [self.length, w], [w], [w, w], [w, w], [w, w], [w, w], [w], [w, self.experts],
                 [w], [w, CLASSES], [self.experts, w, self.hidden], [self.experts, self.hidden, w]]
        self.parameters = [self.values(s, i).requires_grad_() for i, s in enumerate(sizes)]
        self.state = [torch.zeros_like(p) for _ in range(2) for p in self.parameters]
        count = torch.arange(cells)
        self.inputs = [a.to(self.device) for a in ((count * 7919 + 13) % VOCABULARY, count,
                                                   (count * 104729 + 7) % CLASSES)]

    def experts_of(self, x, router, first, second):
        """Rows by expert, each expert's product on its own, rows back in order."""
        torch = self.torch
        logits = x @ router
        choice = logits.argmax(1)
        gate = torch.softmax(logits, 1).gather(1, choice[:, None])
        order = choice.argsort(stable=True)
        counts = torch.bincount(choice, minlength=self.experts).tolist()
        parts = x[order].split(counts)
        y = torch.cat([torch.relu(part @ first[e]) @ second[e] for e, part in enumerate(parts)])
        return y[order.argsort()] * gate

    def loss(self, p, tokens, rows, targets):
        torch = self.torch
        x = p[0][tokens].reshape(self.lines, self.length, self.width) + p[1]
        x = x + self.attention(x, *p[2:7])
        row = x.reshape(-1, self.width)[rows]
        row = row + self.experts_of(self.normalised(row, p[7]), p[8], p[11], p[12])
        logits = self.normalised(row, p[9]) @ p[10]
        picked = logits.gather(1, targets[:, None])[:, 0]
        return (torch.logsumexp(logits, 1) - picked).sum() / rows.shape[0]

    @staticmethod
    def update(p, state, g):
        half = len(p)
        m = [0.9 * a + 0.1 * b for a, b in zip(state[:half], g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(state[half:], g)]
        return [a - RATE * b / (c.sqrt() + 1e-6) for a, b, c in zip(p, m, v)], m + v


def stepper(peer, loss, update):
    """One step from where the last one ended; its loss."""
    torch = peer.torch
    p, state = peer.parameters, peer.state

    def step():
        nonlocal p, state
        out = loss(p, *peer.inputs)
        g = torch.autograd.grad(out, p)
        with torch.no_grad():
            p, state = update(p, state, list(g))
        p = [a.detach().requires_grad_() for a in p]
        return out.detach()
    return step


def median_us(torch, step, batches):
    times = []
    for batch in range(batches + 1):  # the first one warms up
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        if batch > 0:
            times.append((time.perf_counter() - begin) / STEPS * 1e6)
    return statistics.median(times)


def agree(name, way, theirs, mine):
    if abs(theirs - mine) > AGREE * abs(mine):
        fail(f"{name}: a loss is {mine} here and {theirs} by PyTorch ({way}): not the same model, so no ratio")


def compare(arguments, torch, ways, name, kind, found):
    """Adds a row of the table, written as it grows: our figures are taken before and after PyTorch's."""
    before = ours(arguments, name)
    row = {"name": name, "losses": [before["first_loss"], before["second_loss"]]}
    found["benchmarks"].append(row)
    device = "cpu" if arguments.check else "cuda"
    for way in ways:
        peer = kind(torch, device, before)
        loss, update = peer.loss, peer.update
        begin = time.perf_counter()
        if way == "compiled":
            loss, update = torch.compile(loss), torch.compile(update)
        step = stepper(peer, loss, update)
        agree(name, way, float(step()), before["first_loss"])
        row[f"{way}_first_step_s"] = time.perf_counter() - begin
        agree(name, way, float(step()), before["second_loss"])  # gradients and update too
        if arguments.check:
            continue
        row[f"{way}_us"] = median_us(torch, step, 3 if arguments.tiny else 31)
        row["ours_us"] = statistics.mean([before["real_time"], ours(arguments, name)["real_time"]])
        for known in [known for known in ways if f"{known}_us" in row]:
            row[f"ours_over_{known}"] = row["ours_us"] / row[f"{known}_us"]
        write(arguments.out, found)
    return row


def write(file, found):
    """The whole file or, where this is cut short, the one before."""
    if file:
        with open(file + ".part", "w") as out:
            json.dump(found, out, indent=1)
        os.replace(file + ".part", file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpu_bench")
    parser.add_argument("--tiny", action="store_true", help="sizes that show that it runs; no figures")
    parser.add_argument("--check", action="store_true", help="compare losses only")
    parser.add_argument("--out", help="JSON")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("SKIPPED: PyTorch is not installed for this Python; the peers of gpu_bench were not run.", file=sys.stderr)
        return SKIPPED if arguments.check else ENVIRONMENT
    if not arguments.check and not torch.cuda.is_available():
        fail(f"PyTorch {torch.__version__} finds no GPU here; the peers of gpu_bench need one")
    torch.backends.cuda.matmul.allow_tf32 = False
    ways = ["eager"]
    if not arguments.check and hasattr(torch, "compile"):
        ways.append("compiled")
    elif not arguments.check:
        print(f"gpu_torch: PyTorch {torch.__version__} has no torch.compile; eager only", file=sys.stderr)
    context = {"torch": torch.__version__, "tiny": arguments.tiny,
               "device": "this processor" if arguments.check else torch.cuda.get_device_name()}
    found = {"context": context, "benchmarks": []}
    rows = [compare(arguments, torch, ways, name, kind, found)
            for name, kind in (("transformer_block", Block), ("moe_step", MoeStep))]
    write(arguments.out, found)
    for row in rows:
        if arguments.check:
            print(f"{row['name']}: losses of two steps agree ({row['losses'][0]:.6g}, {row['losses'][1]:.6g})")
        else:
            theirs = [f"{way} {row[f'{way}_us']:.0f} us (ours/{way} {row[f'ours_over_{way}']:.3f})" for way in ways]
            print(f"{row['name']}: ours {row['ours_us']:.0f} us, {', '.join(theirs)}"
                  + ("; --tiny: no figures" if arguments.tiny else ""))
    return 0


sys.exit(main())
