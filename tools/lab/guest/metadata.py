#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Create, stat and unlink COUNT files in DIRECTORY: metadata.py COUNT DIRECTORY.

Prints the seconds that each step took. Nothing is cached when the files are looked at.
"""

import os
import sys
import time


def create(paths):
    for path in paths:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def stat(paths):
    for path in paths:
        os.stat(path)


def unlink(paths):
    for path in paths:
        os.unlink(path)


def main():
    count, directory = int(sys.argv[1]), sys.argv[2]
    os.mkdir(directory)
    paths = [f"{directory}/file-{number}" for number in range(count)]
    for step in (create, stat, unlink):
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
        began = time.monotonic()
        step(paths)
        print(step.__name__, time.monotonic() - began)
    os.rmdir(directory)


main()
