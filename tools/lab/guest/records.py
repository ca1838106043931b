#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Write records whose loss would be noticed, and check them after a crash of the server.

records.py write DIRECTORY CONTROL   writes until the file CONTROL.stop exists
records.py check DIRECTORY CONTROL   compares the files with what the writers have noted

Each writer has a file, and a note in CONTROL.WRITER, which is on the machine that does not crash:
the line ``SLOT GENERATION LENGTH`` before a record is written, the line ``stable`` when a call has
returned after which all of its records must survive. A record that was stable and has not been
written since must be there, byte for byte. One that was being written may hold the bytes of any of
its generations since the last stable one, in sectors of 512 bytes, or be missing where there was no
stable one.

Prints how many records were stable, and how many of them were written again meanwhile. Ends 1 and
says where when a record is wrong.
"""

import mmap
import os
import random
import sys
import threading
import time

SLOTS, SIZE, PIECE = 16, 49152, 512
PAUSE = 0.01


def contents(writer, slot, generation, length):
    """Returns the bytes of a record; generation 0 is one that was never written."""
    if not generation:
        return bytes(length)
    return random.Random(f"{writer}.{slot}.{generation}").randbytes(length)


class Note:
    """A writer's note of its records."""

    def __init__(self, control, writer):
        self._file = os.open(f"{control}.{writer}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def begins(self, slot, generation, length):
        os.write(self._file, f"{slot} {generation} {length}\n".encode())

    def stable(self):
        os.write(self._file, b"stable\n")


class Writer:
    """Writes its records; `step` makes some of them stable. A failure is an error."""

    def __init__(self, directory, control):
        self.name = type(self).__name__.lower()
        self.path = f"{directory}/{self.name}"
        self.note, self.chance = Note(control, self.name), random.Random(self.name)
        self.generation = 0
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | self.flags)

    flags = 0

    def record(self, slot, length):
        self.generation += 1
        self.note.begins(slot, self.generation, length)
        return contents(self.name, slot, self.generation, length)

    def write(self, slot, length, at):
        data = self.record(slot, length)
        with mmap.mmap(-1, length) as buffer:
            buffer[:] = data
            if os.pwrite(self.file, buffer, at) != length:
                raise OSError("a short write")


class Cached(Writer):
    """Overwrites slots in the page cache, some at a time, and calls fsync."""

    def step(self):
        for _ in range(self.chance.randrange(1, 6)):
            slot = self.chance.randrange(SLOTS)
            self.write(slot, SIZE, slot * SIZE)
        os.fsync(self.file)
        self.note.stable()


class Direct(Writer):
    """Overwrites slots past the page cache; O_DSYNC makes each write stable."""

    flags = os.O_DIRECT | os.O_DSYNC

    def step(self):
        slot = self.chance.randrange(SLOTS)
        self.write(slot, SIZE, slot * SIZE)
        self.note.stable()


class Growing(Writer):
    """Appends records of odd lengths, and calls fdatasync."""

    end = 0

    def step(self):
        length = self.chance.randrange(1, 100000)
        self.write(self.generation + 1, length, self.end)
        self.end += length
        os.fdatasync(self.file)
        self.note.stable()


class Replaced(Writer):
    """Writes a new file, calls fsync, and renames it to the name of the old one."""

    def step(self):
        data = self.record(0, 70001)
        file = os.open(f"{self.path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(file, data)
        os.fsync(file)
        os.close(file)
        os.rename(f"{self.path}.new", self.path)
        self.note.stable()


WRITERS = (Cached, Direct, Growing, Replaced)


def write(directory, control):
    """Lets all writers work until somebody makes CONTROL.stop."""
    failures = []

    def work(kind):
        try:
            writer = kind(directory, control)
            while not os.path.exists(f"{control}.stop"):
                writer.step()
                time.sleep(PAUSE)
        except BaseException as err:
            failures.append(f"{kind.__name__}: {err!r}")

    os.makedirs(directory, exist_ok=True)
    threads = [threading.Thread(target=work, args=(kind,)) for kind in WRITERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("\n".join(failures))


class Slot:
    """The possible contents of a record: the stable generation, and those written since."""

    def __init__(self, at):
        self.at, self.stable, self.since = at, (0, 0), []


def noted(control, writer):
    """Returns the slots of a writer by number."""
    slots, end = {}, 0
    # The writer may be in the middle of a line.
    with open(f"{control}.{writer}") as file:
        lines = file.read().split("\n")[:-1]
    for line in lines:
        if line == "stable":
            for slot in slots.values():
                slot.stable, slot.since = (slot.since or [slot.stable])[-1], []
            continue
        number, generation, length = map(int, line.split())
        if number not in slots:
            slots[number] = Slot(end if writer == "growing" else number * SIZE)
        slots[number].since.append((generation, length))
        end += length
    return slots


def right(begin, found, allowed):
    """Whether each piece of a record is that of an allowed generation; pieces end at sectors."""
    at, last = 0, max(map(len, allowed))
    while at < last:
        end = at + PIECE - (begin + at) % PIECE
        if not any(found[at:end] == one[at:end] for one in allowed):
            return False
        at = end
    return True


def wrong_slots(writer, path, slots):
    """Yields what is wrong with the records of a writer."""
    with open(path, "rb") as file:
        for number, slot in slots.items():
            generation, length = slot.stable
            known = [(generation, length), *slot.since]
            longest = max(length for _, length in known)
            file.seek(slot.at)
            found = file.read(longest)
            allowed = [contents(writer, number, *one) for one in known if one[0]]
            if not generation:
                # It was never stable: it may be missing, or its end, or hold zeroes.
                found += bytes(longest - len(found))
                allowed.append(bytes(longest))
            if writer == "replaced" and found not in allowed:
                yield f"{path}: none of the generations {known}"
            elif not right(slot.at, found, allowed):
                yield f"{path}: record {number}, {len(found)} bytes, is none of {known}"


def check(directory, control):
    """Compares all files with the notes."""
    wrong, stable, again = [], 0, 0
    for kind in WRITERS:
        writer = kind.__name__.lower()
        slots = noted(control, writer)
        kept = [slot for slot in slots.values() if slot.stable[0]]
        stable, again = stable + len(kept), again + sum(bool(slot.since) for slot in kept)
        path = f"{directory}/{writer}"
        wrong += list(wrong_slots(writer, path, slots)) if kept or os.path.exists(path) else []
    print(stable, again)
    if wrong:
        sys.exit("\n".join(wrong[:10]))


{"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
