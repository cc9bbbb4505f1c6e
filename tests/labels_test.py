#!/usr/bin/env python3
"""Checks the labels of tests (CMakeLists.txt): those that look at a clock, or sleep, have "time"; every room and every
error code is in a file with tests that have "quick".

usage: labels_test.py SOURCE BUILD CTEST

Reads the tests of the build from ctest, and the bodies of all tests from the sources. What the helpers of a file
do counts for all of its tests.
"""
import json
import pathlib
import re
import subprocess
import sys

CLOCK = re.compile(r'sleep_for|sleep_until|\busleep\(|\bnanosleep\(|\bsleep\(\d|\bsleep \d|clock::now\(|clock_?\.now\(\)'
                   r'|\bwait_for\(|\bwait_until\((?!\[)|SystemClock\(\)\.now|\.seconds\b(?!\))|, SIGSTOP')
#: Rooms that no C++ test includes, by a quick test that needs them.
THROUGH = {'shapes/facts': 'ShapeEnvTest.', 'worker/cli/programs': 'SavedCli.', 'worker/front/python/native': 'native_test'}
BEGIN = re.compile(r'^(TYPED_TEST|TEST)(_F|_P)?\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)\)')


def parts_of(text):
    """(suite, name, lines) of each test, and ('', '', lines) of what is outside of them, with line numbers."""
    outside, tests, body = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        begun = BEGIN.match(line)
        if begun:
            body = []
            tests.append((begun[3], begun[4], body))
        (outside if body is None else body).append((number, line.split('//')[0]))
        if line.startswith('}'):
            body = None
    return [('', '', outside), *tests]


def labels_of(build, ctest):
    """Of each test of GoogleTest, "Suite.Name" without parameters, and of each suite that runs under mpirun."""
    told = subprocess.run([ctest, '--test-dir', build, '--show-only=json-v1'], capture_output=True, text=True, check=True)
    out = {}
    for test in json.loads(told.stdout)['tests']:
        labels = next((p['value'] for p in test.get('properties', []) if p['name'] == 'LABELS'), [])
        names = [test['name'].split('  #')[0]]
        for argument in test.get('command', []):
            if argument.startswith('--gtest_filter=') and '.n' in test['name']:
                names = argument.removeprefix('--gtest_filter=').split(':')
        for name in names:
            plain = re.sub(r'^[^/.]+/(?=[^.]*\.)|(?<=.)/[^.]*$', '', name)
            out.setdefault(plain, set()).update(labels or ['none'])
    return out


def flaws(source, labels):
    def timed(suite, name):
        found = labels.get(f'{suite}.{name}') or labels.get(f'{suite}.*')
        return found is None or 'time' in found  # None: not part of this build

    for file in sorted((source / 'tests').rglob('*_test.cpp')):
        parts = parts_of(file.read_text())
        tests = parts[1:]
        for suite, name, lines in parts:
            for number, line in lines:
                word = CLOCK.search(line)
                if not word:
                    continue
                untimed = [t for t in (tests if not suite else [(suite, name, None)]) if not timed(*t[:2])]
                if untimed:
                    yield (f'{file.relative_to(source)}:{number}: "{word[0]}" is in {untimed[0][0]}.{untimed[0][1]}'
                           f'{f" and {len(untimed) - 1} others" if len(untimed) > 1 else ""}, without the label "time"')


def left_out(source, labels):
    """Rooms and error codes without a quick test."""
    quick = {name for name, found in labels.items() if 'quick' in found}
    suites = {name.removesuffix('*').split('.')[0] for name in quick}
    files = {}
    for file in (source / 'tests').rglob('*_test.cpp'):
        text = file.read_text()
        if any(suite in suites for suite, _, _ in parts_of(text)[1:]):
            files[file.relative_to(source / 'tests').parent.as_posix(), file.name] = text
    folders = {folder for folder, _ in files}  # named as rooms, without the halls
    rooms = set()
    for text in files.values():
        rooms.update(pathlib.PurePosixPath(header).parent.as_posix()
                     for header in re.findall(r'#include <lockstep/([^>]+)>', text))
    rooms.update(room for room, test in THROUGH.items() if any(name.startswith(test) for name in quick))
    for room in (source / 'tests/rooms.txt').read_text().splitlines():
        room = room.split('#')[0].strip()
        if room and room not in rooms and re.sub(r'^worker/\w+/', 'worker/', room) not in folders:
            yield f'tests/rooms.txt: no quick test includes a header of {room}'
    codes = (source / 'collectives/base/status.h').read_text().split('enum class Code', 1)[1].split('};')[0]
    for code in re.findall(r'^  ([A-Z]\w+),', codes, re.MULTILINE):
        if not any(f'Code::{code}' in text for text in files.values()):
            yield f'collectives/base/status.h: no quick test names Code::{code}'


def main():
    source, build, ctest = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    labels = labels_of(build, ctest)
    if not any('time' in found for found in labels.values()):
        sys.exit('no test has the label "time"')
    found = [*flaws(source, labels), *left_out(source, labels)]
    print('\n'.join(found))
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
