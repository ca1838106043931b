# SPDX-License-Identifier: GPL-2.0
"""Finds the place in the kernel that allocates each page of `alloc_pages_bulk`.

Pages that the kernel allocates in bulk have no trace event. The function calls `__rmqueue_pcplist`
for each of them, so they are the runs of the block after that call.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...command import capture
from ...errors import LabError

FUNCTION, TAKEN_BY = "alloc_pages_bulk_noprof", "__rmqueue_pcplist"


def offset(obj: Path) -> int:
    """Returns the offset in `FUNCTION` of the block that begins after the call of `TAKEN_BY`."""
    start, end = _range((obj / "System.map").read_text())
    limits = (f"--start-address={start:#x}", f"--stop-address={end:#x}")
    return after_call(capture(["objdump", "-d", *limits, obj / "vmlinux"])) - start


def _range(symbols: str) -> tuple[int, int]:
    """Returns the address of `FUNCTION` and that of the function after it."""
    words = [line.split() for line in symbols.splitlines()]
    addresses = sorted({int(word[0], 16) for word in words})
    start = next(int(word[0], 16) for word in words if word[2] == FUNCTION)
    return start, addresses[addresses.index(start) + 1]


def after_call(listing: str) -> int:
    """Returns the address after the call of `TAKEN_BY` in objdump's listing of a function.

    # Errors
    `LabError` without exactly one such call.
    """
    lines = listing.splitlines()
    calls = [number for number, line in enumerate(lines) if f"<{TAKEN_BY}>" in line]
    found = re.match(r"\s*([0-9a-f]+):", lines[calls[0] + 1]) if len(calls) == 1 else None
    if found is None:
        raise LabError(f"{FUNCTION} calls {TAKEN_BY} {len(calls)} times instead of once")
    return int(found[1], 16)
