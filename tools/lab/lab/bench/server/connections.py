# SPDX-License-Identifier: GPL-2.0
"""Measures connections of the server: their memory, and the time in which it accepts many."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...crowd import crowd, queue_pairs
from ...memory import free_kilobytes, page_kilobytes
from ...pair import MOUNT_POINT, Guest, Pair
from ..figures import Figures
from .turns import mounted

PAYLOADS = (256 << 10, 1 << 20, 4 << 20)
IDLE, CROWD = 16, 48
#: Seconds within which the program that looks must end.
_PATIENCE = 60.0
#: Seconds of the measurement without a crowd.
_QUIET = 3.0


def device_kilobytes(vmallocinfo: str, page: int) -> int:
    """Returns the memory that the software device has mapped for its queues.

    `page`: kilobytes of a page.
    """
    lines = [line for line in vmallocinfo.splitlines() if " rxe_queue_init" in line]
    pages = [re.search(r" pages=(\d+)", line) for line in lines]
    return sum(int(found[1]) for found in pages if found) * page


def _slab_kilobytes(guest: Guest) -> int:
    return int(guest.sh("awk '/^Slab:/ {print $2}' /proc/meminfo"))


def memory(pair: Pair, module: str, payload: int, figures: Figures) -> None:
    """Measures the memory of idle connections at the payload that the server offers now."""
    title = f"idle connection, {payload >> 10} KiB payload"
    # The first connections fill caches of the kernel.
    with crowd(pair, 4):
        pass
    before = _usage(pair.server)
    with crowd(pair, IDLE):
        # Buffers of a connection may come after the answer to its request.
        time.sleep(1)
        used, slab, device, count = _usage(pair.server, before)
    figures.note(f"{title}, all but the queues", "KiB", module, (used - device) / count)
    figures.note(f"{title}, slab", "KiB", module, slab / count)
    figures.note(f"{title}, queues of the device", "KiB", module, device / count)


def _usage(guest: Guest, before: Sequence[int] = (0, 0, 0, 0)) -> tuple[int, ...]:
    """Returns kilobytes in use, of slabs and of the device, and queue pairs, beyond `before`."""
    used = -free_kilobytes(guest)
    device = device_kilobytes(guest.read("/proc/vmallocinfo"), page_kilobytes(guest))
    now = (used, _slab_kilobytes(guest), device, queue_pairs(guest))
    return tuple(value - old for value, old in zip(now, before, strict=True))


def accept(pair: Pair, module: str, version: str, figures: Figures) -> None:
    """Measures the time to accept many connections while a mount works on one of its own."""
    title = f"{CROWD} connections"
    pair.server.sh("touch /srv/export/looks")
    with mounted(pair, version, "actimeo=0"):
        with looking(pair) as quiet:
            time.sleep(_QUIET)
        with looking(pair) as crowded, crowd(pair, CROWD) as seconds:
            pass
    figures.note(f"{title}, established in", "s", module, seconds)
    figures.note(f"{title}, longest GETATTR meanwhile", "ms", module, crowded[0] * 1000)
    figures.note("longest GETATTR without them", "ms", module, quiet[0] * 1000)


@contextmanager
def looking(pair: Pair) -> Iterator[list[float]]:
    """Calls GETATTR all the time inside the block.

    Yields a list that has the longest time and the median in seconds after the block.
    """
    stop = "/run/looks.stop"
    pair.client.sh(f"rm -f {stop}")
    pid = pair.client.vm.start(f"exec python3 /lab/latency.py {MOUNT_POINT}/looks {stop}")
    times: list[float] = []
    # The interpreter needs some time to start.
    time.sleep(1)
    try:
        yield times
    finally:
        pair.client.sh(f"touch {stop}")
        done = pair.client.vm.agent.wait(pid, _PATIENCE)
    _, longest, median = map(float, done.stdout.split())
    times += [longest, median]
