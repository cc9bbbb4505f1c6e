#!/usr/bin/env python3
"""Files of the `safetensors` package are read here, and files written here by the package: bit for bit.

usage: package_test.py SAFETENSORS_COPY

Exits with 77 where the package or numpy is missing; without torch bf16 is left out, and it says so.
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError as missing:
    print(f'SKIPPED: {missing}')
    sys.exit(77)
try:
    import torch
    import safetensors.torch
except ImportError:
    torch = None

DTYPES = ['bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'float32', 'float64']
SIZES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 4), (2, 3, 4)]


def copied(program, source):
    target = source.with_suffix('.copy')
    subprocess.run([program, source, target], check=True)
    return target


def check_header(path):
    """What the format asks of a file, beside what the package looks at."""
    data = path.read_bytes()
    length, = struct.unpack('<Q', data[:8])
    assert length % 8 == 0 and data[8:9] == b'{', path
    entries = {k: v for k, v in json.loads(data[8:8 + length]).items() if k != '__metadata__'}
    for name, entry in entries.items():
        size = {'BOOL': 1, 'BF16': 2}.get(entry['dtype']) or int(entry['dtype'][1:]) // 8
        assert entry['data_offsets'][0] % size == 0, (name, entry)


def numpy_files(program, folder, rng):
    tensors = {}
    for dtype in DTYPES:
        for sizes in SIZES:
            count = int(numpy.prod(sizes)) * numpy.dtype(dtype).itemsize
            raw = bytes(rng.randrange(2 if dtype == 'bool' else 256) for _ in range(count))
            tensors[f'{dtype} "{sizes}" \u00e4'] = numpy.frombuffer(raw, dtype).reshape(sizes)
    theirs = folder / 'numpy.safetensors'
    safetensors.numpy.save_file(tensors, theirs, metadata={'a': 'b', 'line\n': '"\u20ac"'})
    ours = copied(program, theirs)
    check_header(ours)
    back = safetensors.numpy.load_file(ours)
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape, name
        assert back[name].tobytes() == tensor.tobytes(), name
    with safetensors.safe_open(ours, 'numpy') as opened:
        assert opened.metadata() == {'a': 'b', 'line\n': '"\u20ac"'}
        part = opened.get_slice('int32 "(3, 5)" \u00e4')[1:3, 2:4]
    assert (part == tensors['int32 "(3, 5)" \u00e4'][1:3, 2:4]).all()
    return len(tensors)


def torch_files(program, folder, rng):
    tensors = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.uint8, torch.bool):
        for sizes in SIZES:
            count = int(numpy.prod(sizes))
            if dtype == torch.bool:
                tensor = torch.tensor([rng.random() < 0.5 for _ in range(count)], dtype=dtype)
            else:
                size = torch.empty(0, dtype=dtype).element_size()
                raw = bytearray(rng.randrange(256) for _ in range(count * size)) or bytearray(size)
                tensor = torch.frombuffer(raw, dtype=dtype)[:count]
            tensors[f'{dtype}{sizes}'] = tensor.reshape(sizes).clone()
    theirs = folder / 'torch.safetensors'
    safetensors.torch.save_file(tensors, theirs)
    ours = copied(program, theirs)
    check_header(ours)
    for back in (safetensors.torch.load_file(ours), safetensors.torch.load(ours.read_bytes())):
        assert back.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape, name
            same = back[name].contiguous().reshape(-1).view(torch.uint8)
            assert torch.equal(same, tensor.reshape(-1).view(torch.uint8)), name
    return len(tensors)


def empty_files(program, folder):
    theirs = folder / 'empty.safetensors'
    safetensors.numpy.save_file({}, theirs)
    assert safetensors.numpy.load_file(copied(program, theirs)) == {}


def main():
    program, rng = sys.argv[1], random.Random(22)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        count = numpy_files(program, folder, rng)
        empty_files(program, folder)
        if torch:
            count += torch_files(program, folder, rng)
    print(f'safetensors {safetensors.__version__}: {count} tensors there and back, bit for bit, '
          f'{"bf16 too" if torch else "without bf16: there is no torch"}')


if __name__ == '__main__':
    main()
