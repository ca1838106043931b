#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Work on files until stopped, and check every byte.

worker.py [--block BYTES] DIRECTORY CONTROL [SECONDS]

Four threads share a directory: one writes blocks, one reads them back and compares, one lists
names, one sets a time. To see each of these calls even while others fail, mount with
actimeo=600. An operation may fail while the server misbehaves; what it must not do is lie. A block
whose write failed may hold the old or the new contents; any other must hold what was written last.
Blocks of 1024 bytes travel inline; nobody lists names beside them then, so that no call of this
work exposes memory.

Progress goes to the file CONTROL.status (``OPERATIONS ERRORS STANDSTILL``): the last are the most
seconds between two operations that went well since somebody last made a file CONTROL.mark, which is
removed when that is noted. Once CONTROL.stop exists every block is written again, read back without
cache, and the contents left in CONTROL.expected for a comparison on the server. Prints
``operations=… errors=… longest=…``: seconds between two operations that went well. Ends 1, and says
where, when anything differed.
"""

import argparse
import contextlib
import mmap
import os
import random
import sys
import threading
import time

BLOCKS = 24
SIZE, INLINE = 65536, 1024
NAMES = 150
PATIENCE = 0.02


class Block:
    """The generations that one block of the file may hold."""

    def __init__(self):
        self.lock = threading.Lock()
        self.allowed = {0}


def contents(index, generation, size=SIZE):
    """Returns a block's bytes; generation 0 is that of a fresh file."""
    if generation == 0:
        return bytes(size)
    return random.Random(f"{index}.{generation}").randbytes(size)


class Work:
    """The file, and the operations that were done to it."""

    def __init__(self, directory, control, size):
        self.directory, self.control, self.size = directory, control, size
        self.blocks = [Block() for _ in range(BLOCKS)]
        self.operations = self.errors = 0
        self.last, self.longest, self.standstill = time.monotonic(), 0.0, 0.0
        self.wrong = []
        self._counting = threading.Lock()
        self.file = self.opened()
        os.ftruncate(self.file, BLOCKS * size)
        os.makedirs(f"{directory}/names", exist_ok=True)
        self.names = {f"{index:03d}{'n' * 60}" for index in range(NAMES)}
        for name in self.names:
            os.close(os.open(f"{directory}/names/{name}", os.O_WRONLY | os.O_CREAT))
        self.list = os.open(f"{directory}/names", os.O_RDONLY)

    def opened(self):
        return os.open(f"{self.directory}/blocks", os.O_RDWR | os.O_CREAT | os.O_DIRECT)

    def reopen(self):
        """Reopens the file: after failed calls NFSv4 may have lost the state of the open one."""
        old, self.file = self.file, self.opened()
        with contextlib.suppress(OSError):
            os.close(old)

    def went_well(self):
        with self._counting:
            now = time.monotonic()
            self.operations += 1
            self.standstill = max(self.standstill, now - self.last)
            self.longest = max(self.longest, self.standstill)
            self.last = now

    def mark(self):
        """Restarts the count of standstills."""
        with self._counting:
            self.standstill = 0.0

    def went_wrong(self):
        with self._counting:
            self.errors += 1
        time.sleep(PATIENCE)

    def differs(self, what):
        self.wrong.append(what)

    def write(self, index, generation):
        """Writes one block; on failure it may hold either contents."""
        block = self.blocks[index]
        with block.lock, mmap.mmap(-1, self.size) as buffer:
            buffer[:] = contents(index, generation, self.size)
            block.allowed.add(generation)
            wrote = os.pwrite(self.file, buffer, index * self.size)
            if wrote != self.size:
                raise OSError(f"{wrote} of {self.size} bytes written")
            block.allowed = {generation}

    def read(self, index):
        """Reads one block and compares it with all that it may hold."""
        block = self.blocks[index]
        with block.lock, mmap.mmap(-1, self.size) as buffer:
            got = os.preadv(self.file, [buffer], index * self.size)
            found = buffer[:got]
            known = (contents(index, generation, self.size) for generation in block.allowed)
            if not any(found == one for one in known):
                self.differs(f"block {index}: {got} bytes, not generation {block.allowed}")

    def look(self):
        """Lists the directory without the cache."""
        os.posix_fadvise(self.list, 0, 0, os.POSIX_FADV_DONTNEED)
        found = set(os.listdir(self.list))
        if found != self.names:
            self.differs(f"{len(found)} names, not {len(self.names)}")

    def repeat(self, operation, stop):
        while not stop.is_set():
            try:
                operation()
                self.went_well()
            except OSError:
                self.went_wrong()


def report(work, stop):
    while not stop.wait(0.1):
        if os.path.exists(f"{work.control}.mark"):
            work.mark()
            os.unlink(f"{work.control}.mark")
        with open(f"{work.control}.partial", "w") as file:
            file.write(f"{work.operations} {work.errors} {work.standstill:.2f}\n")
        os.rename(f"{work.control}.partial", f"{work.control}.status")


def settle(work, generation):
    """Writes and reads every block once more; any error ends the program now."""
    if work.errors:
        work.reopen()
    with open(f"{work.control}.expected", "wb") as file:
        for index in range(BLOCKS):
            work.write(index, generation)
            file.write(contents(index, generation, work.size))
    os.fsync(work.file)
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")
    for index in range(BLOCKS):
        work.read(index)
    work.look()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--block", type=int, default=SIZE)
    parser.add_argument("directory")
    parser.add_argument("control")
    parser.add_argument("seconds", type=float, nargs="?", default=1e9)
    return parser.parse_args()


def jobs_of(work, generations):
    """Returns the operations, one for each thread to repeat."""
    chance = random.Random(1)
    jobs = [
        lambda: work.write(chance.randrange(BLOCKS), next(generations)),
        lambda: work.read(chance.randrange(BLOCKS)),
        lambda: os.utime(work.file),
    ]
    return jobs if work.size <= INLINE else [*jobs, work.look]


def main():
    args = arguments()
    work = Work(args.directory, args.control, args.block)
    until = time.monotonic() + args.seconds
    generations = iter(range(1, 1 << 40))
    stop = threading.Event()
    jobs = jobs_of(work, generations)
    threads = [threading.Thread(target=work.repeat, args=(job, stop)) for job in jobs]
    threads.append(threading.Thread(target=report, args=(work, stop)))
    for thread in threads:
        thread.start()
    while not os.path.exists(f"{work.control}.stop") and time.monotonic() < until:
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    settle(work, next(generations))
    print(f"operations={work.operations} errors={work.errors} longest={work.longest:.1f}")
    if work.wrong:
        sys.exit("\n".join(work.wrong[:10]))


main()
