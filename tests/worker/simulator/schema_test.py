"""The schema of scenarios against the reader: every scenario that is shipped is valid, and of
scenarios with a random change, whatever the reader takes the schema takes, and what only the reader
refuses is refused for a reason that a schema cannot give.
usage: schema_test.py LOCKSTEP"""
import copy
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("SKIPPED: needs the Python module jsonschema (package python3-jsonschema).")
    sys.exit(77)

LOCKSTEP = sys.argv[1]
ROOT = pathlib.Path(__file__).parents[3]
CHANGES = 800
KEYS = ["x", "frame", "ranks", "values", "tensor", "int", "float", "bool", "marks", "uniform", "per",
        "min", "share", "first", "every", "probability", "total", "size", "calls", "inputs", "cost", "network",
        "skew_us", "compile", "step", "collectives", "all_reduce", "constant_us", "alpha_us", "within",
        "data_network", "device", "kernels", "bytes", "bytes_per_element", "flops", "dtype", "memory", "staging",
        "fields", "join", "string", "hex", "max", "union", "equal",
        "between", "faults", "fault", "count", "call", "at_s", "for_s", "delay_s", "rejected"]
VALUES = [None, True, 0, 1, -1, 3, 2**63, -2**63, 1.5, 4.0, "", "0", "0-3", "3-0", "01", "dynamic", "host",
          "f64", [], [1], [2, 1], ["data"], {}, {"ranks": 2}, {"x": 1}, {"share": 5}, {"uniform": [0, 3]},
          "rdma", {"network": "tcp"}, {"constant_us": 2.5}, [{"all_gather": 4}], {"alpha_us": 1, "beta_gbps": 2},
          "h200", "dgx_h100", "nvlink4", "bf16", {"memory_gbps": 9}, {"between": "pcie5"}, {"bytes": 9}, [{"flops": 7}],
          "slow", "late", "max", "0fF", "00Ff", {"int": 3, "join": "max"}, {"x": {"hex": "", "join": "union"}}, [0, 3],
          {"fault": "crashed", "ranks": "0", "call": 0}]
# What a schema cannot say.
ONLY_THE_READER = re.compile(
    r"a value of this group has the same name|bytes, where at most|"
    r"outside the world|is no range|occurs twice|already|strides for|is no integer|"
    r"not a dim of this tensor|no dim to mark|above the greatest|above max|ranks_per_host|need the key grid|"
    r"is not one of data|no multiple|weights for|has a weight above 0|do not fit 64 bits|different values|"
    r"the generator makes|is not a file beside|cannot be (opened|read)|is a directory|"
    r"does not fit 64 bits|nor a calibrated network|is not a file beside|not a directory|"
    r"the scenario makes|the least is above|leave [0-9]+ of the world|"
    r"needs the key device|the device has no tflops|devices a host, and the generator|does not say their link|"
    r"an earlier fault stops or crashes|s of virtual time|no call of the scenario has this frame")


def scenarios():
    found = sorted(ROOT.glob("tests/scenarios/*.json")) + sorted(ROOT.glob("examples/scenarios/*.json"))
    return [path for path in found if not path.name.endswith((".result.json", ".schema.json"))]


def places(json_value, at=()):
    """The paths of all values in a document."""
    yield at
    if isinstance(json_value, dict):
        for key, value in json_value.items():
            yield from places(value, at + (key,))
    elif isinstance(json_value, list):
        for index, value in enumerate(json_value):
            yield from places(value, at + (index,))


def changed(document, chance):
    """The document with one value replaced, dropped or added."""
    out = copy.deepcopy(document)
    place = chance.choice([p for p in places(out) if p])
    holder = out
    for step in place[:-1]:
        holder = holder[step]
    kind = chance.randrange(4)
    if kind == 0:
        del holder[place[-1]]
    elif kind == 1 and isinstance(holder[place[-1]], dict):
        holder[place[-1]][chance.choice(KEYS)] = chance.choice(VALUES)
    elif kind == 2 and isinstance(holder, dict):
        holder[chance.choice(KEYS)] = holder.pop(place[-1])
    else:
        holder[place[-1]] = chance.choice(VALUES)
    return out


def read(path):
    """Whether the reader takes a scenario, and what it says if not."""
    run = subprocess.run([LOCKSTEP, "dryrun", path, "--json"], capture_output=True, text=True, timeout=120)
    assert run.returncode in (0, 2), (run.returncode, run.stderr)
    assert (run.returncode == 0) == bool(run.stdout), "a refusal says nothing on stdout"
    return run.returncode == 0, run.stderr


def check_fault_kinds(schema, folder):
    """The schema has the kinds of faults that the reader has, in its words."""
    path = pathlib.Path(folder) / "kinds.json"
    path.write_text(json.dumps({"format": "lockstep.scenario/1", "world_size": 2, "calls": [],
                                "faults": {"list": [{"fault": "?", "ranks": "0", "call": 0}]}}))
    known = re.search(r'"\?" is not one of ([a-z_, ]*)', read(path)[1])
    kinds = schema["$defs"]["fault"]["properties"]["fault"]["enum"]
    assert known and known[1].split(", ") == kinds, (known, kinds)


def main():
    schema = json.loads((ROOT / "tests/scenarios/scenario.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    schema_takes = jsonschema.Draft202012Validator(schema).is_valid
    small = []
    for path in scenarios():
        document = json.loads(path.read_text())
        assert schema_takes(document), path
        if document["world_size"] <= 64 and len(path.read_text()) < 3000:
            small.append((path, document))
    assert len(small) >= 10, "there is something to change"
    chance = random.Random(20)
    took = refused = only_reader = 0
    with tempfile.TemporaryDirectory() as folder:
        check_fault_kinds(schema, folder)
        for lengths in ROOT.glob("examples/scenarios/*.csv"):
            (pathlib.Path(folder) / lengths.name).write_text(lengths.read_text())
        for number in range(CHANGES):
            origin, document = chance.choice(small)
            document = changed(document, chance)
            path = pathlib.Path(folder) / f"{number}.json"
            path.write_text(json.dumps(document))
            taken, says = read(path)
            valid = schema_takes(document)
            assert valid or not taken, f"the reader takes what the schema does not:\n{origin}\n{document}"
            if valid and not taken:
                assert ONLY_THE_READER.search(says), f"the schema takes what it could refuse:\n{says}\n{document}"
                only_reader += 1
            took += taken
            refused += not taken
    print(f"{len(scenarios())} scenarios valid; of {CHANGES} changed ones {took} taken, {refused} refused, "
          f"{only_reader} of them by the reader alone")
    assert took >= 50 and refused > 200 and only_reader >= 3


main()
