# SPDX-License-Identifier: GPL-2.0
"""Looks whether there is memory, and whether tasks hang."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..table import size
from .kinds import Finding, finding
from .view import Fact, View

#: Below this part of all memory, registering memory may fail.
_LOW = 1 / 20

_HUNG = re.compile(r"task (\S+) blocked for more than")


def check(view: View) -> Iterator[Fact | Finding]:
    """Looks at the memory of the host, and at the kernel's log for tasks that hang."""
    amounts = dict(re.findall(r"^(\w+):\s+(\d+) kB", view.host.read("/proc/meminfo") or "", re.M))
    total = int(amounts.get("MemTotal", 0)) * 1024
    available = int(amounts.get("MemAvailable", 0)) * 1024
    if total and available < total * _LOW:
        yield finding("memory-low", available=size(available), total=size(total))
    elif total:
        yield Fact(f"{size(available)} of {size(total)} are available")
    hung = _HUNG.findall(view.host.run("dmesg").out)
    if hung:
        yield finding("locked-up", task=", ".join(dict.fromkeys(hung)))
