"""lockstep.torch.watch() on real torch: each case runs on 2 and more processes, watched and not. Not watched it
must go wrong (a hang until gloo's time-out, or another number), so that the case shows something.

torch_test.py [CASE]..."""

import json
import pathlib
import tempfile
import time

from torch_ranks import GLOO, Ranks, run_cases


def case_branch():
    seen = Ranks("branch")
    seen.all_raise("apart", "GraphDivergence", "operation 1 of the group of ranks 0-1 is not the same", "rank 0: all_reduce "
                   "sum f32[] at torch_case.py", "rank 1: all_reduce max f32[4, 4] at torch_cases.py",
                   "the graphs of branch.<locals>.step (torch_cases.py:", "differ, and so do their collectives: node 2: ",
                   "f32[3, 4] on rank 0")
    seen = Ranks("branch", policy="error")
    seen.all_raise("apart", "GraphDivergence", "collective 1 is not the same", "rank 0: all_reduce sum f32[] at "
                   "torch_case.py", "rank 1: all_reduce max f32[4, 4] at torch_cases.py",
                   "x.size(0) tells them apart (rank 0: 3; rank 1: 4)")
    seen.all_raise("together", "GraphDivergence", "the ranks run different programs")  # one has symbols, one numbers
    return Ranks("branch", watched=False).goes_wrong("apart")


def lone(name):
    def case():
        seen = Ranks(f"lone_property:{name}")
        seen.all_raise("apart", "GraphDivergence", "is not the same on its ranks", "rank 0: all_reduce max f32[",
                       "rank 1: all_reduce sum f32[] at torch_case.py")
        seen = Ranks(f"lone_property:{name}", policy="error")
        seen.all_raise("apart", "GraphDivergence", "needs a new version", "has a version")
        seen.all_give("together", 84.0)
        return Ranks(f"lone_property:{name}", watched=False).goes_wrong("apart")
    return case


def case_alone():
    for size in (2, 4):
        seen, without = Ranks("alone", size), Ranks("alone", size, watched=False)
        values = [[c["value"] for c in seen.calls("step", rank)] for rank in range(size)]
        assert values == [[5.0 * size, 6.5 * size, 4.5 * size, 9.0 * size, 4.0 * size]] * size, values
        assert all(a <= b for a, b in zip(sorted(seen.value("compiles")), sorted(without.value("compiles")))), (seen.text,)
    return f"compiles {without.value('compiles')}, watched {seen.value('compiles')}"


def case_sizes_of_peers():
    """A rank that compiles again makes symbols of what is another size on its peers; bare, it compiles once more."""
    seen, without = Ranks("sizes_of_peers"), Ranks("sizes_of_peers", watched=False)
    audited = Ranks("sizes_of_peers", policy="audit")
    for run in (seen, without, audited):
        assert [c["value"] for c in run.calls("step", 1)] == [12.0, 18.0, 45.0], run.text
    compiles = [next(t["compiles"] for t in run.told if t["rank"] == 1 and "compiles" in t) for run in (seen, without, audited)]
    assert compiles == [2, 3, 3], compiles
    return f"compiles {compiles[0]}, bare and under audit {compiles[1:]}"


def case_decided_from_tales():
    """With compile() the first version of a rank has symbols for what was another size on its peers."""
    told = [next(t["compiles"] for t in Ranks("decided_from_tales", watched=watched).told if t["rank"] == 1 and "compiles" in t)
            for watched in (True, False)]
    assert told == [2, 4], told
    return f"compiles {told[0]} of two layers, bare {told[1]}"


def case_time_outs():
    """A program's own time-outs stay, where nobody compiles, and where somebody waits on a thread of its own."""
    seen = Ranks("time_outs")
    for name in ("all_reduce", "reduce", "barrier", "future", "monitored_barrier"):
        call = seen.calls(name, 0)[0]
        assert call.get("error") in ("RuntimeError", "DistBackendError") and 1.5 < call["seconds"] < 4.5, (call, seen.text)
    return "as without"


def case_frames():
    seen = Ranks("frames")
    assert any("the same on its ranks, at different places of the program [rank 0: all_reduce sum f32[] at torch_cases.py:" in
               told for told in seen.value("told")), seen.text
    seen = Ranks("frames", policy="error")
    for label in ("first encounter", "found in caches"):
        seen.all_raise(label, "FrameMismatch", "rank 0: frames.<locals>.train; rank 1: frames.<locals>.evaluate")
    assert [c.get("value") for c in seen.calls("alike", 0)] == [24.0, 4.0, 24.0], seen.text
    apart = Ranks("frames", watched=False).calls("found in caches")
    assert [c.get("value") for c in apart] == [14.0, 14.0], apart
    return "both ranks 14.0, for 24.0 and 4.0"


def case_encounter():
    for size in (2, 3):
        seen = Ranks("encounter", size)
        seen.all_give("recompile", 6.0)
        seen.all_give("audit", 6.0)
        seen.all_raise("error", "GraphDivergence", "needs a new version", "has a version")
        told = {(t["rank"], t["policy"]): t for t in seen.told if "policy" in t}
        for rank in range(size):
            assert told[rank, "recompile"]["compiles"] == (rank == 0), seen.text
            assert told[rank, "audit"]["compiles"] == (rank == 0), seen.text
            assert not told[rank, "audit"]["found"], seen.text
    return "votes of first encounters meet those of caches"


def case_loader():
    seen = Ranks("loader")
    last = seen.calls("batch 3", 1)[0]
    assert last["error"] == "Gone" and "rank 0 has failed: OSError: no such shard" in last["text"], seen.text
    assert last["seconds"] < 4 and seen.codes == [1, 3], (last, seen.codes)
    last = Ranks("loader", policy="error").calls("batch 3", 1)[0]
    assert last["error"] == "Gone" and "OSError: no such shard" in last["text"], last
    return Ranks("loader", watched=False).goes_wrong("batch 3")


def case_batches():
    seen = Ranks("batches")
    last = seen.calls("batch 3", 1)[0]
    assert last["error"] == "Stuck" and "rank 0 has finished, and others wait for it" in last["text"], seen.text
    assert last["seconds"] < 4 and not seen.calls("batch 4"), seen.text
    last = Ranks("batches", policy="error").calls("batch 3", 1)[0]
    assert last["error"] == "FrameMismatch" and "rank 0: finish" in last["text"], last
    return Ranks("batches", watched=False).goes_wrong("batch 3")


def case_slow():
    seen = Ranks("slow")
    assert [c.get("value") for c in seen.calls("step", 1)] == [8.0, 9.0], seen.text
    assert len(set(seen.codes)) == 1 and seen.codes[0] == 0, seen.text
    return Ranks("slow", watched=False).goes_wrong("step")


def case_nested():
    Ranks("nested").all_raise("apart", "GraphDivergence", "all_reduce sum f32[3]", "all_reduce max f32[3]")
    seen = Ranks("nested", policy="error")
    seen.all_raise("apart", "GraphDivergence", "all_reduce sum f32[3]", "all_reduce max f32[3]")
    seen.all_give("together", 6.0)
    return "the frame's own graph is compared"


def jagged(case, compiles):
    def check():
        seen, bare = Ranks(case), Ranks(case, watched=False)
        for number in range(3):
            for call in bare.calls(f"call {number}"):
                seen.all_give(f"call {number}", call["value"])
        assert compiles in (None, seen.value("compiles")), seen.text
        return f"compiles {seen.value('compiles')}"
    return check


def case_names():
    seen = Ranks("names", policy="error")
    seen.all_raise("apart", "FrameMismatch", "rank 0: names.<locals>.made.<locals>.<lambda>; rank 1: names.<locals>.made."
                   "<locals>.<lambda> (2)")
    for label in ("hooked", "within"):
        seen.all_raise(label, "FrameMismatch", "names.<locals>.Hooked.forward")
    return "numbered in the order in which they are met"


def case_one_breaks():
    for where in ("collective", "local"):
        seen = Ranks(f"one_breaks:{where}")
        seen.all_give("together", 4.0)  # it is as right as without
        seen = Ranks(f"one_breaks:{where}", policy="error")
        assert seen.calls("apart", 1)[0].get("error") == "GraphDivergence", seen.text
        if where == "collective":  # raised before rank 0 issues it
            seen.all_raise("apart", "GraphDivergence", "those of code without a graph")
            seen.all_give("after", 4.0)
        else:  # nothing of rank 0's frame can raise: all raise at the next
            seen.all_raise("after", "CompileError", "those of code without a graph")
        seen.all_give("together", 4.0)
    return "ranks stay in step"


def case_handled():
    seen = Ranks("handled")
    seen.all_give("nothing to trace", 3.0)
    seen.all_give("together", 4.0)
    assert "harmless" not in seen.text, seen.text
    return "no business of the compile"


def case_waits():
    Ranks("waits").all_give("together", 6.0)
    return "two deadlines, and it goes on"


def case_compiled_slow():
    Ranks("compiled_slow").all_give("step", 8.0)
    return "three deadlines"


def case_compiled_fails():
    seen = Ranks("compiled_fails")
    seen.all_give("well", 1.0)
    errors = [seen.calls("fails", rank)[0] for rank in (0, 1)]
    assert [e["error"] for e in errors] == ["OSError", "RuntimeAssert"], seen.text
    assert "rank 0 failed" in errors[1]["text"] and "on this rank alone" in errors[1]["text"], errors
    assert seen.value("fallbacks") == [4, 4], seen.text
    return "the error of all ranks in that call"


def case_compiled_again():
    seen = Ranks("compiled_again")
    seen.all_give("rows", 1.0)
    assert [c["value"] for c in seen.calls("strided", 0)] == [27.0, 27.0], seen.text
    assert seen.value("found") == [[], []], seen.value("found")
    assert len(set(seen.value("compiles"))) == 1 and max(seen.value("apart")) <= 4, seen.text
    return f"compiles {seen.value('compiles')}, of each rank for itself {seen.value('apart')}"


def case_compiled_module():
    seen = Ranks("compiled_module")
    for label, value in (("outer", 36.0), ("forward", 34.0), ("method", 16.0), ("ordinary", 96.0), ("inner", 16.0), ("same collectives", 20.0),
                         ("recorded", 6.0), ("fewer", 6.0)):
        seen.all_give(label, value)
    seen.all_raise("too many", "MemoryError")
    seen.all_raise("closed", "RuntimeError", "has been closed")
    return "copies, files, attributes, methods, arguments of all kinds"


def case_reset():
    Ranks("reset").all_give("alike", 6.0)
    seen = Ranks("reset", policy="error")
    seen.all_raise("apart", "FrameMismatch", "rank 0: total; rank 1: reset.<locals>.train")
    seen.all_give("alike", 6.0)
    return f"compiles {seen.value('compiles')}"


def gone(how, where):
    def case():
        seen = Ranks(f"gone:{how}:{where}", 3)
        code = 5 if how == "killed" else 4
        assert seen.codes[1:] == [code, code], (seen.codes, seen.text)
        assert "ank 0" in seen.text and ("RANK_LOST" if how == "killed" else "STUCK") in seen.text, seen.text
        struck = seen.value("struck")[0]
        lasted = time.time() - struck
        assert lasted < 10 * GLOO, lasted  # a busy machine included
        return f"named within {lasted:.1f} s of it, the ends of all processes included"
    return case


def case_eager():
    seen = Ranks("eager")
    seen.all_give("together", 6.0)
    seen.all_raise("apart", "GraphDivergence", "rank 0: all_reduce sum f32[3] at torch_cases.py",
                   "rank 1: broadcast f32[3] root 0 at torch_cases.py", within=2.0)
    strict = Ranks("eager", policy="error")
    strict.all_raise("apart", "FrameMismatch", "rank 0: all_reduce sum f32[3]; rank 1: broadcast f32[3]")
    return f"{seen.seconds:.0f} s; before it is issued under policy error"


def case_eager_sizes():
    seen = Ranks("eager_sizes")
    seen.all_raise("apart", "GraphDivergence", "operation 3 of the group of ranks 0-1 is not the same",
                   "rank 0: all_reduce max f32[3] at torch_cases.py", "rank 1: all_reduce sum f32[3] at", within=2.0)
    seen.all_raise("after", "GraphDivergence")
    return "before it is issued"


def case_same_work():
    runs = [Ranks("same_work", watched=watched) for watched in (True, False)]
    keys = ("losses", "gradient", "frames", "graphs")
    with_, without = ([[t[key] for key in keys] for t in run.told if "losses" in t] for run in runs)
    assert sorted(with_) == sorted(without) and len(with_) == 2, (with_, without)
    assert with_[0][2] > 5, with_
    issued = [line.split("\t")[0] for line in Ranks("same_work", policy="error").value("issued")[0]]
    assert issued == ["all_reduce sum f32[4]"], issued  # those before it have been voted
    return f"{with_[0][2]} frames, {with_[0][3]} graphs, with and without"


def case_compiled_branch():
    seen = Ranks("compiled_branch")
    seen.all_raise("apart", "BranchDivergence", "x.size(0) <= 3 (torch_compile_cases.py:", "rank 0: x.size(0) = 3: true; "
                   "rank 1: x.size(0) = 4: false")
    seen.all_give("together", 32.0)
    return "named with line and sizes"


def case_compiled_inputs():
    for size in (2, 4):
        seen = Ranks("compiled_inputs", size)
        for call in range(8):
            calls = seen.calls(f"call {call}")
            assert len(calls) == size and all(c["value"] == c["eager"] for c in calls), seen.text
            assert len({c["entry"] for c in calls}) == 1, calls
        assert len(set(seen.value("compiles"))) == 1 and seen.value("compiles")[0] <= 8, seen.value("compiles")
        assert set(seen.value("votes")) == {8}, "each version is found by torch's own guards"
    return f"compiles {seen.value('compiles')}"


def case_compiled_layouts():
    seen = Ranks("compiled_layouts")
    # ones times 0 to 5 on two ranks: the sum, whatever the layout.
    want = {"alike": (1, [[1, 2]]), "apart": (1, [[3, 1]]), "later": (2, [[3, 1]] * 2), "gaps": (1, [[3, 1]])}
    for name, (compiles, strides) in want.items():
        seen.all_give(name, 30.0)
        for told in (t for t in seen.told if t.get("name") == name):
            assert told["compiles"] == compiles and told["strides"] == strides and told["fallbacks"] == 0, told
    seen.all_give("shared", 24.0)
    assert seen.value("kept") == [True] * 2 and seen.value("double") == [0.0] * 2, seen.text
    seen.all_give("leaf", 12.0)
    assert set(seen.value("written")) == {6.0}, seen.value("written")
    assert [t["gradient"] for t in seen.told if "gradient" in t] == [[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]] * 2, seen.text
    return "a version per layout that all have, else of contiguous copies"


def case_compiled_one_vote():
    for size in (1, 2, 3):
        seen = Ranks("compiled_one_vote", size)
        seen.all_give("call", 4.0 * size)
        seen.all_give("flag", 4.0 * size + 4)
        seen.all_give("rows", 4.0 * size + 1)
        seen.all_raise("refused", "BadInput", f"y is {2**63}, which does not fit")
        seen.all_raise("trouble", "RuntimeAssert", "the data loader is broken")
        assert seen.value("votes") == [0] * 2 * size, seen.value("votes")
        assert sorted(seen.value("compiles")) == [5] * (size - 1) + [6], seen.value("compiles")  # one of them forgot
    return f"compiles {seen.value('compiles')}"


def case_within_except():
    seen = Ranks("within_except", policy="error")
    seen.all_raise("apart", "FrameMismatch", "rank 0: total; rank 1: within_except.<locals>.other")
    seen.all_raise("new", "FrameMismatch", "rank 0: total; rank 1: within_except.<locals>.other")
    seen.all_give("together", 8.0)
    return "the error of all ranks, while another is handled"


def case_compiled_issues():
    seen = Ranks("compiled_issues")
    for rank in (0, 1):
        told = [c.get("value", c.get("error")) for n in (0, 1, 2) for c in seen.calls(f"flag {n}", rank)]
        assert told[:7] == [4.0] * 5 + ["GraphDivergence", "OSError" if rank == 1 else 4.0], (told, seen.text)
    return "an exception of one rank is no divergence, a collective in no graph is"


def case_compiled_small():
    seen = Ranks("compiled_small")
    for name in ("plain", "needs"):
        for rows in ((5, 6), (7, 5), (0, 5), (1, 0), (6, 8), (1, 1), (8, 9)):
            factor = [row if name == "plain" else 1 + (row > 4) for row in rows]
            seen.all_give(f"{name} {rows}", float(sum(row * by for row, by in zip(rows, factor)))
                          ) if name == "plain" or (rows[0] > 4) == (rows[1] > 4) or min(rows) < 2 else None
    told = {(t["model"], t["rank"]): t for t in seen.told if "model" in t}
    assert [told["plain", rank]["fallbacks"] for rank in (0, 1)] == [0, 0], told
    assert told["needs", 0]["fallbacks"] == told["needs", 1]["fallbacks"] == 3, told
    assert seen.text.count("run without a compiled version") == 1, seen.text
    return f"compiles {[t['compiles'] for t in told.values()]}, 3 calls of 7 without a compiled version"


def case_compiled_uniform():
    seen = Ranks("compiled_uniform")
    for rows in ((4, 4), (5, 5), (6, 6), (1, 1), (0, 0), (9, 9)):
        seen.all_give(f"{rows}", 8.0 * rows[0] + 7 + 2 * rows[0])
    for a, b in ((5, 7), (6, 7), (1, 2), (0, 9)):
        seen.all_raise(f"{(a, b)}", "ConstraintViolation", "step: 2*x.size(0) differs between ranks",
                       "all_gather_into_tensor at torch_compile_cases.py:", f"[rank 0: {2 * a}; rank 1: {2 * b}]")
    for shapes in (((2, 6), (3, 4)), ((4, 5), (2, 10)), ((6, 6), (4, 9))):  # gloo needs as many elements, no more
        seen.all_give(f"{shapes}", 2.0 * shapes[0][0] * shapes[0][1])
    seen.all_raise(f"{((2, 6), (3, 5))}", "ConstraintViolation", "x.size(0)*x.size(1) differs between ranks", "[rank 0: 12; rank 1: 15]")
    seen.all_give("square (5, 5)", 50.0)
    seen.all_raise("square (5, 7)", "ConstraintViolation", "square: ", "[rank 0: 25; rank 1: 49]")
    seen.all_give("square (6, 6)", 72.0)
    seen.all_give("untaken", 3.0)  # what never runs needs nothing
    seen.all_give("on some", 16.0)
    assert not any(seen.codes), seen.text
    return f"before it runs; compiles {seen.value('compiles')}"


def compiled_lone(name):
    def case():
        seen = Ranks(f"compiled_lone:{name}")
        if name == "collective":
            seen.all_raise("apart", "GraphDivergence", "collective 1 is not the same")
        elif name == "gradient":
            seen.all_raise("apart", "ConstantMismatch", "x.requires_grad")
        else:
            seen.all_give("apart", 84.0 + 42.0 * (name == "value"))
        seen.all_give("together", 84.0)
        assert len(set(seen.value("compiles"))) == 1, seen.text
        return f"compiles {seen.value('compiles')}"
    return case


def case_compiled_break():
    seen = Ranks("compiled_break")
    seen.all_raise("whole", "Unsupported", "torch_compile_cases.py", within=8)
    seen.all_give("in pieces", 9.0)
    return "PyTorch's own error with the line, or pieces"


def case_compiled_marks():
    seen = Ranks("compiled_marks")
    assert [c["value"] for c in seen.calls("marked", 0)] == [24.0, 30.0, 36.0], seen.text
    assert seen.value("compiles") == [1, 1] and "x: f32[s0, 3]" in seen.value("text")[0], seen.text
    seen.all_raise("broken mark", "CompileError", within=8)
    return seen.value("text")[0]


def wrapped(how, via):
    def case():
        seen = Ranks(f"wrapped:{how}:{via}")
        if via == "refused":
            told = seen.value("refused")
            assert len(told) == 2 and all("lockstep.torch.watch()" in text for text in told), seen.text
            return told[0]
        losses = seen.value("losses")
        assert len(losses) == 2, seen.text
        for mine, eager in losses:
            assert all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(mine, eager)) and mine[4] < mine[0], losses
        return f"losses of 5 steps as eager's; {seen.value('votes')[0]} votes"
    return case


def backward(via):
    def case():
        if via == "watch":
            Ranks("backward:watch").all_raise("apart", "GraphDivergence", "rank 0: all_reduce max f32[6] at "
                                              "torch_training_cases.py", "rank 1: all_reduce sum f32[] at")
        seen = Ranks(f"backward:{via}", policy="error" if via == "watch" else "recompile")
        seen.all_raise("apart", "GraphDivergence",
                       "all_reduce max f32[6] in the backward pass at torch_training_cases.py" if via == "watch" else
                       "all_reduce.default(expand, 'max', group): f32[6] at torch_training_cases.py")
        seen.all_give("together", 72.0)
        return Ranks(f"backward:{via}", watched=False).goes_wrong("apart")
    return case


def case_split():
    seen = Ranks("split:watch")
    seen.all_give("step", 1.0)
    assert any("the graphs of _wave (torch_training_cases.py:" in found for found in seen.value("found")), seen.text
    Ranks("split:same_graph").all_raise("step", "GraphDivergence", "in the group of ranks 0-1 the graphs differ from line", within=8)
    Ranks("split:same_collectives").all_give("step", 1.0)
    return "told; an error of compile()"


_COMPILER = """#!/bin/sh
mkdir -p "$(dirname "$COMPILED")"; echo "$@" >> "$COMPILED"
exec "$(PATH="${PATH#*:}" command -v g++)" "$@"
"""


def case_once():
    """Built on one rank, and found on the others; in a second run, of fewer or more ranks, on none."""
    with tempfile.TemporaryDirectory() as caches:
        compiler = pathlib.Path(caches, "g++")
        compiler.write_text(_COMPILER)
        compiler.chmod(0o755)
        runs = []
        for hosts, size in (("first", 2), ("second", 3), ("third", 1), ("alike", 2)):
            seen = Ranks("once:" + hosts, size, caches=caches, hosts=hosts)
            told = [pathlib.Path(caches, f"{hosts}{rank}", "compiled") for rank in range(size)]
            counts = [path.read_text().count("-shared") for path in told]  # others find out what the compiler is
            runs.append((seen.value("builds"), counts))
            values = [call["value"] for call in seen.calls("step")]
            assert len(values) == size and all(abs(v - seen.value("plain")[0]) < 1e-6 for v in values), seen.text
            assert len({round(g, 4) for g in seen.value("gradient")}) == 1, seen.text
        (builds, compiled), (again, compiled_again), (alone, compiled_alone), (_, compiled_alike) = runs
        assert compiled_alike[1] == 0, runs  # its backward graph has no size that varies
        assert builds[0] > 0 and builds[1] == 0 and compiled[0] > 0 and compiled[1] == 0, runs
        assert not any(again) and not any(compiled_again) and not any(alone + compiled_alone), runs
    return f"graphs built, and runs of the C++ compiler, per rank: {runs}"


def case_compiled_dtypes():
    seen = Ranks("compiled_dtypes")
    assert seen.value("compiles") == [2, 2], seen.text
    for rank in (0, 1):
        values = [call.get("value") for call in seen.calls("step", rank)]
        assert values == [8.0 * 6, 8.0 * 9, 8.0 * 13], (values, seen.text)
    seen.all_raise("other", "SourceMismatch", "z.dtype=complex64")
    return "agreed on"


def case_compiled_fields():
    seen = Ranks("compiled_fields")
    for rank in (0, 1):
        assert [c.get("value") for c in seen.calls("step", rank)] == [7.0, 10.0, 17.0, 8.0], seen.text
    small, large = ({"capacity": size, "ranks": [0, 1]} for size in (8, 16))
    fields = seen.value("fields")
    assert sorted(map(str, fields)) == sorted(map(str, 2 * [small, small, large, large])), fields
    seen.all_raise("other", "ConstantMismatch", "rank")
    seen.all_give("limited True", 24.0)
    seen.all_give("limited False", 0.0)
    seen.all_give("needs", 30.0)
    assert seen.value("fallbacks") == [[1, 1]] * 2, seen.value("fallbacks")
    return f"compiles {seen.value('compiles')}"


def case_upstream_11():
    for size in (2, 4):
        seen = Ranks("upstream_11", size)
        seen.all_give("step", 4.0 * size)
        assert seen.value("compiles") == [1] * size, seen.text
    return Ranks("upstream_11", watched=False).goes_wrong("step")


def case_upstream_12():
    for size in (2, 3):
        with tempfile.TemporaryDirectory() as caches:
            seen = Ranks("upstream_12", size, caches=caches)
            seen.all_give("step", 8.0 * size)
            finds = seen.value("finds")
            assert sorted(map(bool, finds)) == [False] + [True] * (size - 1), (finds, seen.text)
    return f"graphs found in caches, per rank: {finds}"


def case_cached():
    with tempfile.TemporaryDirectory() as caches:
        seen = Ranks("cached", caches=caches)
    seen.all_give("step", 4.0)
    assert [hits > 0 for hits in seen.value("hits")] in ([True, False], [False, True]), seen.text
    return "no difference"


CASES = {name[len("case_"):]: case for name, case in list(globals().items()) if name.startswith("case_")}
CASES.update({"jagged": jagged("jagged", None), "compiled_jagged": jagged("compiled_jagged", [2, 2])})
CASES.update({f"lone_{name}": lone(name)
              for name in ("size1", "mod8", "duck", "requires_grad", "layout", "closure")})
CASES.update({f"{how}_in_{where}": gone(how, where) for how in ("killed", "stopped")
              for where in ("trace", "backend", "inductor", "collective")})


CASES.update({f"backward_{via}": backward(via) for via in ("watch", "compile")})
CASES.update({f"compiled_lone_{name}": compiled_lone(name) for name in ("collective", "value", "layout", "gradient")})
#: What each of torch's own tests comes to: an error on all ranks, or how often all ranks compile (at most, with watch()).
UPSTREAM = {"compile": {"1": 1, "2": 2, "3": 1, "4": 1, "5": "NdimMismatch", "6": "GraphDivergence",
                        "7": "GraphDivergence", "8": "SourceMismatch", "9": 2},
            "watch": {"1": 6, "2": 3, "3": 1, "4": 4, "5": 1, "6": 1, "7": 1, "8": 1, "9": 2}}


def upstream(number, via):
    def case():
        want = UPSTREAM[via][number]
        for size in (2, 4):
            seen = Ranks(f"upstream:{number}:{via}", size)
            if isinstance(want, str):
                texts = [f"contents_{r}_(): f32[10] at torch_training_cases.py" for r in range(size)] if number == "6" else []
                seen.all_raise("step", want, *texts, within=8)
                continue
            counts = seen.value("compiles")
            same = via == "compile"  # under watch() each rank compiles what it needs itself
            assert counts == [want] * size if same else all(1 <= count <= want for count in counts), (counts, seen.text)
            for rank in range(size):
                wanted = next(t["wanted"] for t in seen.told if t["rank"] == rank and "wanted" in t)
                assert [c.get("value") for c in seen.calls("step", rank)] == wanted, seen.text
        return f"{want} compiles on all ranks" if isinstance(want, int) else want
    return case


CASES.update({f"upstream_{number}_{via}": upstream(number, via) for number in "123456789" for via in ("watch", "compile")})
CASES.update({f"{how}_{via}": wrapped(how, via) for how in ("ddp", "fsdp2", "dtensor", "checkpoint", "bert")
              for via in ("watch", "compile")})
CASES.update({f"{how}_refused": wrapped(how, "refused") for how in ("ddp", "fsdp2")})


run_cases(CASES)
