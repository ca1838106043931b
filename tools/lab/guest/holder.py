#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Hold files open, or read them repeatedly, until stopped.

holder.py CONTROL hold|read PATTERN...

Each PATTERN names files (all are read once) or folders (the last one becomes the working
directory). With `hold` they stay open; with `read` each is opened, read and closed in turn. The
file CONTROL.ready appears when all have been read once; it has their number. Once CONTROL.stop
exists, files that are open are read once more and closed.

Files of a module that has gone may return an error, or contents. What is tested is the kernel.
"""

import contextlib
import glob
import os
import resource
import sys
import time


def read_all(fd):
    """Reads a file from its beginning to its end, as far as it can be read."""
    with contextlib.suppress(OSError):
        os.lseek(fd, 0, os.SEEK_SET)
        while os.read(fd, 65536):
            pass


def open_file(path):
    """Opens a file, which may have nothing to read at the moment, or be there to be written."""
    readable = os.stat(path).st_mode & 0o444
    return os.open(path, (os.O_RDONLY if readable else os.O_WRONLY) | os.O_NONBLOCK)


def read_once(paths):
    """Opens, reads and closes each file that exists and whose module is not being unloaded."""
    for path in paths:
        with contextlib.suppress(OSError):
            fd = open_file(path)
            read_all(fd)
            os.close(fd)


def main():
    control, mode, *patterns = sys.argv[1:]
    # There are a thousand files of trace events.
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    paths = sorted(path for pattern in patterns for path in glob.glob(pattern))
    files = [path for path in paths if os.path.isfile(path)]
    for path in paths:
        if os.path.isdir(path):
            os.chdir(path)
    held = [open_file(path) for path in files if mode == "hold"]
    for fd in held:
        read_all(fd)
    if mode == "read":
        read_once(files)
    with open(f"{control}.ready", "w", encoding="ascii") as ready:
        ready.write(f"{len(paths)}\n")
    while not os.path.exists(f"{control}.stop"):
        if mode == "read":
            read_once(files)
        time.sleep(0.01)
    for fd in held:
        read_all(fd)
        os.close(fd)


main()
