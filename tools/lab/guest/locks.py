#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Lock a whole file of a mount.

usage: locks.py hold FILE CONTROL
       locks.py try FILE
       locks.py turns FILE COUNT

`hold` waits for the lock, makes the file CONTROL.held, keeps the lock until CONTROL.free exists,
and writes a byte before it gives the lock back: the write fails if the lock was lost. It prints the
seconds that it has waited. `try` prints whether the file is "free" or "locked". `turns` takes the
lock COUNT times; each time it checks that the contents are those of the last turn, whoever made
it, and writes those of the next one.
"""

import fcntl
import os
import random
import struct
import sys
import time

#: The bytes of a turn: they need chunks, and fit no page.
SIZE = 70001


def contents(turn):
    return struct.pack(">Q", turn) + random.Random(turn).randbytes(SIZE - 8)


def hold(path, control):
    began = time.monotonic()
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.lockf(file, fcntl.LOCK_EX)
    waited = time.monotonic() - began
    os.close(os.open(f"{control}.held", os.O_CREAT))
    while not os.path.exists(f"{control}.free"):
        time.sleep(0.1)
    os.pwrite(file, b"x", 0)
    os.fsync(file)
    fcntl.lockf(file, fcntl.LOCK_UN)
    print(f"{waited:.2f}")


def attempt(path):
    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("locked")
        else:
            print("free")


def turns(path, count):
    file = os.open(path, os.O_RDWR)
    for _ in range(int(count)):
        fcntl.lockf(file, fcntl.LOCK_EX)
        found = os.pread(file, SIZE + 1, 0)
        turn = struct.unpack_from(">Q", found)[0] if found else 0
        if found and found != contents(turn):
            sys.exit(f"turn {turn}: {len(found)} bytes that nobody has written")
        os.pwrite(file, contents(turn + 1), 0)
        fcntl.lockf(file, fcntl.LOCK_UN)


{"hold": hold, "try": attempt, "turns": turns}[sys.argv[1]](*sys.argv[2:])
