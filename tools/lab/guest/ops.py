#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Do one NFS operation a given number of times: ops.py (read|write|getattr) COUNT FILE [SIZE].

The file has 1 MiB. SIZE is the number of bytes of each read or write, 4096 by default.
"""

import mmap
import os
import sys

FILE = 1 << 20


def main() -> None:
    verb, count, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    size = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
    buffer = mmap.mmap(-1, size)
    if verb == "getattr":
        # The mount has actimeo=0: each look goes to the server.
        for _ in range(count):
            os.stat(path)
        return
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    for index in range(count):
        offset = index * size % FILE
        if verb == "read":
            os.preadv(fd, [buffer], offset)
        else:
            os.pwrite(fd, buffer, offset)
    os.close(fd)


main()
