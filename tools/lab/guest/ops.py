#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Do one NFS operation a given number of times: ops.py VERB COUNT FILE [SIZE].

VERB is read, write, getattr, getacl, readdir or find. The file has 1 MiB. SIZE is the number of
bytes of each read or write, 4096 by default. For getacl, readdir and find FILE is a directory: each
of its entries is asked once, by name, until COUNT is reached; find also looks at each file in it.
The caller has emptied the client's caches.
"""

import mmap
import os
import sys

FILE = 1 << 20


def ask(verb: str, path: str) -> None:
    if verb == "getacl":
        os.getxattr(path, "system.nfs4_acl")
        return
    names = os.listdir(path)
    if verb == "find":
        for name in names:
            os.lstat(f"{path}/{name}")


def main() -> None:
    verb, count, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    size = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
    buffer = mmap.mmap(-1, size)
    if verb == "getattr":
        # The mount has actimeo=0: each look goes to the server.
        for _ in range(count):
            os.stat(path)
        return
    if verb in ("getacl", "readdir", "find"):
        for index in range(count):
            ask(verb, f"{path}/{index}")
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
