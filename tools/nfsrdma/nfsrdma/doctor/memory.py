# SPDX-License-Identifier: GPL-2.0
"""Checks whether there is memory, and whether tasks hang."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..table import size
from .kinds import Finding, finding
from .view import Fact, View

#: Below this part of all memory, registering memory may fail.
_LOW = 1 / 20

#: As in `INFO: task kworker/u8:1:77 blocked in I/O wait for more than 120 seconds.`
_HUNG = re.compile(r"task (.+):(\d+) blocked.* for more than")
#: The states of a task that waits and cannot be interrupted, in /proc/PID/stat.
_WAITS = "D"


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines the memory of the host, and the kernel's log for tasks that hang."""
    amounts = dict(re.findall(r"^(\w+):\s+(\d+) kB", view.host.read("/proc/meminfo") or "", re.M))
    total = int(amounts.get("MemTotal", 0)) * 1024
    available = int(amounts.get("MemAvailable", 0)) * 1024
    if total and available < total * _LOW:
        yield finding("memory-low", available=size(available), total=size(total))
    elif total:
        yield Fact(f"{size(available)} of {size(total)} are available")
    yield from _hung(view)


def _hung(view: View) -> Iterator[Finding]:
    """Reports the tasks that the log has named and that still hang."""
    named = dict.fromkeys(_HUNG.findall(view.log.out))
    hung = [f"{name}:{pid}" for name, pid in named if _waits(view, pid)]
    if hung:
        yield finding("locked-up", task=", ".join(hung))


def _waits(view: View, pid: str) -> bool:
    stat = view.host.read(f"/proc/{pid}/stat") or ""
    return stat.rpartition(")")[2].split()[:1] == [_WAITS]
