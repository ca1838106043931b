#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Limit what a user may have on a file system: quota.py DEVICE USER KIBIBYTES FILES.

A limit of 0 is none. Prints the bytes and the files that the user has.
"""

import ctypes
import os
import struct
import sys

#: Commands of quotactl(2) for quotas of users, and the fields of a quota that are set.
GET, SET = 0x800007 << 8, 0x800008 << 8
BLOCK_LIMITS, FILE_LIMITS = 1, 4
QUOTA = struct.Struct("=8QI4x")


def call(command, device, user, quota):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.quotactl(command, device.encode(), user, ctypes.byref(quota)):
        error = ctypes.get_errno()
        sys.exit(f"quotactl of {device}: {os.strerror(error)}")


def main():
    device, user, space, files = sys.argv[1], *map(int, sys.argv[2:])
    fields = space, 0, 0, files, 0, 0, 0, 0, BLOCK_LIMITS | FILE_LIMITS
    quota = ctypes.create_string_buffer(QUOTA.pack(*fields), QUOTA.size)
    call(SET, device, user, quota)
    call(GET, device, user, quota)
    found = QUOTA.unpack(quota.raw)
    print(found[2], found[5])


main()
