#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Calls that are aborted before their replies arrive.

given_up.py fill DIRECTORY
    Makes the files that the other commands read and write, on the server.
given_up.py kill DIRECTORY SECONDS KIND
    Processes that call the server without a pause are killed after a few milliseconds, eight at a
    time. KIND ``inline``: attributes and names that do not exist, calls that expose no memory.
    ``chunks``: long names listed, a long link read, and blocks read and written past the page
    cache. Prints ``killed=…``.
given_up.py burst FILE STOP
    One read after the other, past the page cache, each of many calls, and a second of rest after
    each, until the file STOP exists. Errors are expected. Prints ``good=… failed=…``.
given_up.py read FILE
    The same without rest, until a read fails.
"""

import contextlib
import itertools
import mmap
import os
import random
import signal
import sys
import time

CHILDREN, BLOCK, REST = 8, 65536, 1.0
#: How often `kill` starts and kills its processes at least, on a slow host beyond its seconds.
LEAST = 20
#: With `rsize=8192` one read of it makes 24 calls: fewer than a server grants, since a client whose
#: aborted calls occupy all credits has to reconnect.
SIZE = 24 * 8192


def fill(directory):
    """Makes long names, long links, a block for each process, and a file to read."""
    for folder in ("names", "links"):
        os.mkdir(f"{directory}/{folder}")
    for index in range(150):
        open(f"{directory}/names/{index}" + "n" * 60, "w").close()
    for index in range(1000):
        os.symlink("0" * 1000, f"{directory}/links/{index}")
    for name in (*(f"blocks-{index}" for index in range(CHILDREN)), "empty"):
        with open(f"{directory}/{name}", "wb") as file:
            file.write(bytes(1 << 19))
        os.chmod(f"{directory}/{name}", 0o666)


def attributes(directory, _number):
    os.stat(f"{directory}/names")


def absent(directory, number):
    with contextlib.suppress(FileNotFoundError):
        os.stat(f"{directory}/absent-{number}")


def names(directory, _number):
    folder = os.open(f"{directory}/names", os.O_RDONLY)
    while True:
        os.posix_fadvise(folder, 0, 0, os.POSIX_FADV_DONTNEED)
        os.listdir(folder)


def link(directory, number):
    # Each is read once: the client keeps the target of a link.
    os.readlink(f"{directory}/links/{number % 1000}")


def block(directory, number):
    file = os.open(f"{directory}/blocks-{os.getpid() % CHILDREN}", os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, BLOCK) as buffer:
        if number % 2:
            os.pwrite(file, buffer, 0)
        else:
            os.preadv(file, [buffer], 0)
    os.close(file)


KINDS = {"inline": (attributes, absent), "chunks": (names, names, link, names, block)}


def doomed(directory, jobs, index, begun):
    """Starts a process that does one job again and again; returns its id.

    The process writes a byte to `begun` before its first job.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.write(begun, b".")
        for number in itertools.count(random.randrange(1 << 20)):
            jobs[index % len(jobs)](directory, number)
    finally:
        os._exit(1)


def started(directory, jobs):
    """Starts eight processes and waits until each begins its work; returns their ids."""
    reader, begun = os.pipe()
    children = [doomed(directory, jobs, index, begun) for index in range(CHILDREN)]
    os.close(begun)
    with open(reader, "rb") as file:
        # Processes that end before write nothing: the end of the file comes early.
        if len(file.read(CHILDREN)) < CHILDREN:
            sys.exit("a process ended before it began")
    return children


def kill(directory, seconds, kind):
    """Starts eight processes and kills them, again and again; returns how many were killed."""
    jobs, killed, times = KINDS[kind], 0, 0
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until or times < LEAST:
        times += 1
        children = started(directory, jobs)
        # Their first calls are in progress then.
        time.sleep(0.05)
        for child in children:
            # They are killed one after the other, so that the calls of the others go on.
            time.sleep(random.uniform(0, 0.01))
            os.kill(child, signal.SIGKILL)
        for child in children:
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
            if os.WIFEXITED(status):
                sys.exit("a process ended before it was killed")
    print(f"killed={killed}")


def read_once(file):
    with mmap.mmap(-1, SIZE) as buffer:
        return os.preadv(file, [buffer], 0)


def burst(path, stop):
    """Sends calls at about the same time, so that they time out at about the same time."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    good = failed = 0
    while not os.path.exists(stop):
        try:
            read_once(file)
            good += 1
        except OSError:
            failed += 1
        time.sleep(REST)
    print(f"good={good} failed={failed}")


def read(path):
    """Reads until the mount is forced away."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with contextlib.suppress(OSError):
        while True:
            read_once(file)


if __name__ == "__main__":
    {"fill": fill, "kill": kill, "burst": burst, "read": read}[sys.argv[1]](*sys.argv[2:])
