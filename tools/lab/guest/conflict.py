#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Open files for writing while a client may hold delegations: conflict.py DIRECTORY COUNT [GO].

Runs where the files are local, 16 at a time or as many as the variable AT_ONCE says: f0, f1 and so
on each get one line more.
Prints the seconds that the slowest one took. With GO, it waits until a file of this name exists,
so that the time that Python needs to start is over by then.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def append(path):
    """Adds a line to a file and returns how long that took."""
    began = time.monotonic()
    with open(path, "a") as file:
        file.write("conflict\n")
    return time.monotonic() - began


def main():
    """Writes to all files and prints how long the slowest took."""
    directory, count = sys.argv[1], int(sys.argv[2])
    while not all(map(os.path.exists, sys.argv[3:])):
        time.sleep(0.1)
    paths = [f"{directory}/f{number}" for number in range(count)]
    with ThreadPoolExecutor(int(os.environ.get("AT_ONCE", "16"))) as pool:
        print(max(pool.map(append, paths)))


main()
