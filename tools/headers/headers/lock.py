# SPDX-License-Identifier: GPL-2.0
"""Locks the headers of a kernel, so that one preparation runs at a time.

The lock is an flock on the scripts directory that all flavours of a kernel share. It needs no file
of its own, and ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import HeadersError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds the lock.

    # Errors
    `HeadersError` at once if another process holds it.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HeadersError(
                f"another run{_holder(handle)} is preparing these headers:"
                " wait until it has ended and run this again"
            ) from error
        yield
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    """Returns the process that holds the lock, from /proc/locks."""
    inode = str(os.fstat(handle).st_ino)
    try:
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return ""
    for row in rows:
        if len(row) > 5 and row[1] == "FLOCK" and row[5].rpartition(":")[2] == inode:
            return f" (process {row[4]})"
    return ""
