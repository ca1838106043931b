#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Write a file until an error, and compare what is there.

usage: fill.py write FILE MIB direct|cached [USER]
       fill.py check FILE MIB
       fill.py pages FILE

`write` writes blocks of 1 MiB, as the user of this number if there is one. It prints how many are
whole, and the errors of a write and of fsync() or close(), or 0. A write may be short, and the next
one tells why. `check` compares the first blocks. `pages` prints how many pages of 4 KiB are right,
and how many are empty; a page with other bytes is a failure.
"""

import mmap
import os
import random
import sys

MIB, PAGE = 1 << 20, 4096


def contents(index):
    """Returns the bytes of a block."""
    return random.Random(index).randbytes(MIB)


def write_block(file, index):
    with mmap.mmap(-1, MIB) as buffer:
        buffer[:] = contents(index)
        at = 0
        while at < MIB:
            with memoryview(buffer)[at:] as view:
                at += os.pwrite(file, view, index * MIB + at)


def write(path, count, how, user=0):
    os.setuid(int(user))
    flags = os.O_DIRECT if how == "direct" else 0
    done = error = last = 0
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    except OSError as err:
        print(0, err.errno, 0)
        return
    try:
        for index in range(int(count)):
            write_block(file, index)
            done += 1
    except OSError as err:
        error = err.errno
    for end in (os.fsync, os.close):
        try:
            end(file)
        except OSError as err:
            last = err.errno
    print(done, error, last)


def check(path, count):
    with open(path, "rb") as file:
        for index in range(int(count)):
            if file.read(MIB) != contents(index):
                sys.exit(f"MiB {index} differs")


def pages(path):
    right = empty = index = 0
    with open(path, "rb") as file:
        while found := file.read(MIB):
            wanted = contents(index)
            for at in range(0, len(found), PAGE):
                page = found[at : at + PAGE]
                if page == wanted[at : at + len(page)]:
                    right += 1
                elif page == bytes(len(page)):
                    empty += 1
                else:
                    sys.exit(f"the page at {index * MIB + at} has other bytes")
            index += 1
    print(right, empty)


{"write": write, "check": check, "pages": pages}[sys.argv[1]](*sys.argv[2:])
