# SPDX-License-Identifier: GPL-2.0
"""Measures the free memory of a guest, precise to some hundred kilobytes."""

from __future__ import annotations

import re

from .errors import GuestError
from .pair import Guest


def page_kilobytes(guest: Guest) -> int:
    """Returns the size of a page of a guest."""
    return int(guest.sh("getconf PAGESIZE")) // 1024


def free_kilobytes(guest: Guest) -> int:
    """Returns the free memory after all droppable caches were dropped.

    The result includes the processors' own lists of free pages. They vary by 12 MB, and MemFree
    leaves them out.
    """
    # One command reads both files, since pages move from one list to the other in between.
    text = guest.sh(
        "sync; echo 3 > /proc/sys/vm/drop_caches; sleep 0.5; echo 3 > /proc/sys/vm/drop_caches;"
        " cat /proc/meminfo /proc/zoneinfo"
    )
    return listed_kilobytes(text, page_kilobytes(guest))


def listed_kilobytes(text: str, page: int) -> int:
    """Returns the free memory by the files meminfo and zoneinfo; `page`: kilobytes of a page.

    # Errors
    `GuestError` when the files do not have it.
    """
    free = re.search(r"^MemFree:\s+(\d+) kB$", text, re.MULTILINE)
    lists = re.findall(r"^\s+count:\s+(\d+)$", text, re.MULTILINE)
    if not free or not lists:
        raise GuestError("no free memory in /proc/meminfo and /proc/zoneinfo")
    return int(free[1]) + sum(map(int, lists)) * page
