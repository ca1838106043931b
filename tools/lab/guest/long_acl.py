#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Set or count a long access control list, which is no data that a Read chunk may carry.

usage: long_acl.py set FILE NFS-VERSION
       long_acl.py count FILE

`set` gives a file of an NFS mount a list that names USERS users, more than fit into an inline call.
NFSv3 has POSIX lists in a protocol of its own, NFSv4 has ACEs in SETATTR. `count` prints how many
users the list of a local file names.
"""

import os
import struct
import sys

#: With 400 of them NFSv3 fails (EIO), over TCP as well: its list must fit into a page.
USERS = 330
FIRST = 10000
#: Tags of POSIX lists: the owner, a user, the group, the mask, everyone else.
OWNER, USER, GROUP, MASK, OTHER = 1, 2, 4, 16, 32
READ, NOBODY = 4, 0xFFFFFFFF
POSIX, NFS4 = "system.posix_acl_access", "system.nfs4_acl"


def posix_list():
    entries = [(OWNER, NOBODY), *((USER, FIRST + index) for index in range(USERS))]
    entries += [(GROUP, NOBODY), (MASK, NOBODY), (OTHER, NOBODY)]
    packed = (struct.pack("<HHI", tag, READ, identity) for tag, identity in entries)
    return struct.pack("<I", 2) + b"".join(packed)


def nfs4_list():
    """ACEs that allow to read: type, flags, mask, name."""
    names = [b"OWNER@", *(b"%d" % (FIRST + index) for index in range(USERS))]
    names += [b"GROUP@", b"EVERYONE@"]
    aces = (struct.pack(">4I", 0, 0, 1, len(name)) + name + bytes(-len(name) % 4) for name in names)
    return struct.pack(">I", len(names)) + b"".join(aces)


def count(path):
    value = os.getxattr(path, POSIX)
    return sum(tag == USER for tag, _, _ in struct.iter_unpack("<HHI", value[4:]))


def main():
    action, path, *version = sys.argv[1:]
    if action == "count":
        print(count(path))
    elif version == ["3"]:
        os.setxattr(path, POSIX, posix_list())
    else:
        os.setxattr(path, NFS4, nfs4_list())


main()
