# SPDX-License-Identifier: GPL-2.0
"""How much memory a guest has left, exactly enough to see a few hundred kilobytes go."""

from __future__ import annotations

import re

from .errors import GuestError
from .pair import Guest

PAGE_KILOBYTES = 4


def free_kilobytes(guest: Guest) -> int:
    """Free memory with everything droppable dropped.

    The processors' own lists of free pages belong to it: they come and go by 12 MB, and MemFree
    leaves them out.
    """
    # Both at once: between two commands pages move from one to the other.
    text = guest.sh(
        "sync; echo 3 > /proc/sys/vm/drop_caches; sleep 0.5; echo 3 > /proc/sys/vm/drop_caches;"
        " cat /proc/meminfo /proc/zoneinfo"
    )
    free = re.search(r"^MemFree:\s+(\d+) kB$", text, re.MULTILINE)
    lists = re.findall(r"^\s+count:\s+(\d+)$", text, re.MULTILINE)
    if not free or not lists:
        raise GuestError("no free memory in /proc/meminfo and /proc/zoneinfo")
    return int(free[1]) + sum(map(int, lists)) * PAGE_KILOBYTES
