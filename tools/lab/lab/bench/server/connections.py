# SPDX-License-Identifier: GPL-2.0
"""Measures connections of the server: their memory, the time to accept many, and their pressure."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ... import bystander
from ...crowd import KINDS, Pressing, await_queue_pairs, crowd, queue_pairs
from ...memory import free_kilobytes, page_kilobytes
from ...pair import MOUNT_POINT, Guest, Pair
from ..figures import Figures
from .turns import mounted

PAYLOADS = (256 << 10, 1 << 20, 4 << 20)
IDLE, CROWD, MANY, PRESSING = 16, 48, 1000, 120
#: Seconds within which the program that looks must end: its last look may take long.
_PATIENCE = 120.0
#: Seconds of the measurement without a crowd.
_QUIET = 3.0
#: Seconds for which connections work before they are idle again, and until the server has freed
#: what it keeps for further calls.
_BUSY, _REST = 3.0, 25.0
#: The kinds of connections that take all replies.
_TAKING = tuple(kind for kind in KINDS if kind != "stop")
#: Seconds for which a crowd presses.
_PRESSURE = 30.0


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
    """Measures the memory of idle connections at the payload that the server offers now.

    Then the same after all of them have worked.
    """
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
    # This also makes the file.
    with _worked(pair, 4):
        pass
    before = _usage(pair.server)
    with _worked(pair, IDLE):
        time.sleep(_REST)
        used, _, device, count = _usage(pair.server, before)
    figures.note(f"{title}, after work", "KiB", module, (used - device) / count)


@contextmanager
def _worked(pair: Pair, count: int) -> Iterator[None]:
    """Keeps connections open inside the block that have done all that the server granted."""
    before = queue_pairs(pair.server)
    pressing = Pressing(pair, count, _BUSY, _TAKING)
    pressing.finish()
    yield
    pressing.leave()
    await_queue_pairs(pair.server, before)


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
        with looking(pair.client) as quiet:
            time.sleep(_QUIET)
        with looking(pair.client) as crowded, crowd(pair, CROWD) as seconds:
            pass
    figures.note(f"{title}, established in", "s", module, seconds)
    figures.note(f"{title}, longest GETATTR meanwhile", "ms", module, crowded[0] * 1000)
    figures.note("longest GETATTR without them", "ms", module, quiet[0] * 1000)


def many(pair: Pair, module: str, figures: Figures) -> None:
    """Measures a thousand idle connections: memory, and the time to accept and to lose them."""
    title, kind = f"{MANY:,} connections", pair.setup.link
    with crowd(pair, 4):
        pass
    before = _usage(pair.server)
    with crowd(pair, MANY) as seconds:
        time.sleep(1)
        used, _, device, count = _usage(pair.server, before)
        began = time.monotonic()
        pair.server.sh(f"rdma link del {kind}0", timeout=300)
        removed = time.monotonic() - began
    pair.server.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    figures.note(f"{title}, established in", "s", module, seconds)
    figures.note(f"{title}, all but the queues", "KiB", module, (used - device) / count)
    figures.note(f"{title}, queues of the device", "KiB", module, device / count)
    figures.note(f"{title}, device removed in", "s", module, removed)


def press(pair: Pair, module: str, version: str, figures: Figures) -> None:
    """Measures a third guest's mount beside connections that ask for as much as they may."""
    title = f"{PRESSING} pressing connections"
    pair.server.sh("touch /srv/export/looks")
    with bystander.mounted(pair, version) as guest:
        with looking(guest) as quiet:
            time.sleep(_QUIET)
        before, free = queue_pairs(pair.server), free_kilobytes(pair.server)
        pressing = Pressing(pair, PRESSING, _PRESSURE)
        with looking(guest) as pressed:
            time.sleep(_PRESSURE / 2)
        used = free - free_kilobytes(pair.server)
        fared = pressing.finish()
        pressing.leave()
        await_queue_pairs(pair.server, before)
    for name in KINDS:
        figures.note(f"{title}, {name}", "calls", module, fared[name].answered)
    figures.note(f"{title}, memory", "MiB", module, used / 1024)
    figures.note(f"{title}, lost", "", module, sum(kind.lost for kind in fared.values()))
    for place, what in enumerate(("longest", "median")):
        figures.note(f"{title}, {what} GETATTR", "ms", module, pressed[place] * 1000)
        figures.note(f"{what} GETATTR without them", "ms", module, quiet[place] * 1000)


@contextmanager
def looking(guest: Guest) -> Iterator[list[float]]:
    """Calls GETATTR all the time inside the block, on a guest's mount.

    Yields a list that has the longest time and the median in seconds after the block.
    """
    stop = "/run/looks.stop"
    guest.sh(f"rm -f {stop}")
    pid = guest.vm.start(f"exec python3 /lab/latency.py {MOUNT_POINT}/looks {stop}")
    times: list[float] = []
    # The interpreter needs some time to start.
    time.sleep(1)
    try:
        yield times
    finally:
        guest.sh(f"touch {stop}")
        done = guest.vm.agent.wait(pid, _PATIENCE)
    _, longest, median = map(float, done.stdout.split())
    times += [longest, median]
