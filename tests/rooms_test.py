#!/usr/bin/env python3
"""Checks that includes go one way between rooms (folders of sources), and that no room is too large.

usage: rooms_test.py ROOT

rooms.txt lists the rooms from bottom to top: a file may include files of its own room and of rooms
above its own line in that list. A room has at most MOST_FILES files, or the number that its line gives with a reason
("shapes  # ...; 44 files: the reason"). Cereal's headers are for .cpp files and coordinator/store/archive.h,
which is for .cpp files itself. Fails with every line that does otherwise.
"""
import pathlib
import re
import sys
import tempfile

MOST_FILES = 40
INCLUDE = re.compile(r'\s*#\s*include\s*<lockstep/([^>]+)>')
CEREAL = re.compile(r'\s*#\s*include\s*[<"](cereal/|lockstep/coordinator/store/archive\.h)')
ARCHIVE = 'coordinator/store/archive.h'
LIMIT = re.compile(r'; (\d+) files: \S')


def rooms_of(text):
    """The rooms in their order, each with its most files."""
    rooms = {}
    for line in text.splitlines():
        room, _, words = line.partition('#')
        if room.strip():
            limit = LIMIT.search(words)
            rooms[room.strip()] = int(limit[1]) if limit else MOST_FILES
    return rooms


def flaws(root, rooms):
    place = {room: number for number, room in enumerate(rooms)}
    files = [f for top in sorted({room.split('/')[0] for room in rooms})
             for f in sorted((root / top).rglob('*')) if f.suffix in ('.h', '.cpp')]
    for room in rooms:
        if not (root / room).is_dir():
            yield f'rooms.txt: there is no folder {room}'
    held = {}
    for file in files:
        path = file.relative_to(root)
        room = path.parent.as_posix()
        held[room] = held.get(room, 0) + 1
        if room not in place:
            yield f'{path}: the folder {room} is not in rooms.txt'
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if file.suffix == '.h' and path.as_posix() != ARCHIVE and CEREAL.match(line):
                yield f'{path}:{number}: a header brings Cereal to whoever includes it'
            found = INCLUDE.match(line)
            if not found:
                continue
            other = pathlib.PurePosixPath(found[1]).parent.as_posix()
            if other not in place:
                yield f'{path}:{number}: includes {found[1]}, which is in no room'
            elif place[other] > place[room]:
                yield f'{path}:{number}: includes {found[1]}, but {other} stands above {room}'
    for folder, count in sorted({**held, **test_folders(root)}.items()):
        most = rooms.get(folder, MOST_FILES)
        if count > most:
            yield f'{folder}: {count} source files; the most are {most}'


def test_folders(root):
    held = {}
    for file in (root / 'tests').rglob('*'):
        if file.suffix in ('.h', '.cpp', '.c'):
            folder = file.parent.relative_to(root).as_posix()
            held[folder] = held.get(folder, 0) + 1
    return held


def check_itself():
    """A tree with one flaw of each kind."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for folder in ('low/a', 'low/b', 'low/c', 'tests'):
            (root / folder).mkdir(parents=True)
        (root / 'low/a/x.h').write_text('#pragma once\n#include <lockstep/low/b/y.h>\n')
        (root / 'low/b/y.h').write_text('#include <lockstep/low/a/x.h>\n#include <lockstep/d/z.h>\n')
        (root / 'low/a/x.cpp').write_text('#include <cereal/cereal.hpp>\n')
        (root / 'low/b/v.h').write_text('#include <cereal/cereal.hpp>\n')
        (root / 'low/c/w.cpp').write_text('')
        for i in range(MOST_FILES + 1):
            (root / f'tests/t{i}.cpp').write_text('')
        listed = rooms_of('# rooms\nlow/a  # one; 1 files: it is low\nlow/b\n\nlow/none  # none\n')
        found = list(flaws(root, listed))
    expected = ['rooms.txt: there is no folder low/none',
                'low/a/x.h:2: includes low/b/y.h, but low/b stands above low/a',
                'low/b/v.h:1: a header brings Cereal to whoever includes it',
                'low/b/y.h:2: includes d/z.h, which is in no room',
                'low/c/w.cpp: the folder low/c is not in rooms.txt',
                'low/a: 2 source files; the most are 1',
                f'tests: {MOST_FILES + 1} source files; the most are {MOST_FILES}']
    if found != expected:
        sys.exit('rooms_test.py finds other flaws than there are:\n' + '\n'.join(found))


def main():
    check_itself()
    root = pathlib.Path(sys.argv[1])
    rooms = rooms_of((pathlib.Path(__file__).parent / 'rooms.txt').read_text())
    found = list(flaws(root, rooms))
    if found:
        sys.exit('\n'.join(found))
    print(f'{len(rooms)} rooms, every include goes down')


if __name__ == '__main__':
    main()
