#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Open files for writing that somebody may hold delegations of: conflict.py DIRECTORY COUNT.

Runs where the files are local, 16 at a time: f0, f1 and so on each get one line more.
Prints the seconds that the slowest one took.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor


def append(path):
    """Add a line and return how long that took."""
    began = time.monotonic()
    with open(path, "a") as file:
        file.write("conflict\n")
    return time.monotonic() - began


def main():
    """Do as the command line says."""
    directory, count = sys.argv[1], int(sys.argv[2])
    paths = [f"{directory}/f{number}" for number in range(count)]
    with ThreadPoolExecutor(16) as pool:
        print(max(pool.map(append, paths)))


main()
