# SPDX-License-Identifier: GPL-2.0
"""Measures connections of the server: their memory, and the time in which it accepts many."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ... import paths
from ...command import capture
from ...errors import GuestError
from ...memory import PAGE_KILOBYTES, free_kilobytes
from ...pair import MOUNT_POINT, SERVER_ADDRESS, Guest, Pair
from ..figures import Figures
from .turns import mounted

PAYLOADS = (256 << 10, 1 << 20, 4 << 20)
IDLE, CROWD = 16, 48
_OUTPUT = "/run/crowd.log"
_PATIENCE = 60.0
#: Seconds of the measurement without a crowd.
_QUIET = 3.0


def build() -> Path:
    """Compiles the program that makes many connections into the cache."""
    source = paths.LAB / "crowd/crowd.c"
    target = paths.sub("tools") / "crowd"
    with paths.locked("crowd"):
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            flags = ("-O2", "-Wall", "-Wextra", "-Werror")
            capture(["gcc", *flags, "-o", target, source, "-libverbs", "-lrdmacm"])
    return target


@contextmanager
def crowd(pair: Pair, count: int) -> Iterator[float]:
    """Keeps connections open inside the block; yields the seconds until all were established.

    # Errors
    `GuestError` if the server refused a connection.
    """
    before = queue_pairs(pair.server)
    command = f"exec /lab/crowd {SERVER_ADDRESS} {count} > {_OUTPUT}"
    pid = pair.client.vm.start(command)
    try:
        yield _established(pair, pid, count)
    finally:
        pair.client.run("pkill -x crowd")
        _await_queue_pairs(pair.server, before)


def _established(pair: Pair, pid: int, count: int) -> float:
    deadline = time.monotonic() + _PATIENCE
    while not (text := pair.client.run(f"cat {_OUTPUT}").stdout.decode()):
        if pair.client.vm.agent.poll(pid) or time.monotonic() > deadline:
            raise GuestError(f"{count} connections were not answered in {_PATIENCE:.0f} s")
        time.sleep(0.1)
    return answered(text, count)


def answered(text: str, count: int) -> float:
    """Returns the seconds that `crowd` has printed.

    # Errors
    `GuestError` if not all connections were established.
    """
    found = re.match(r"established (\d+) refused 0 seconds ([\d.]+)$", text.strip())
    if not found or int(found[1]) != count:
        raise GuestError(f"crowd: {text.strip()} instead of {count} connections")
    return float(found[2])


def queue_pairs(guest: Guest) -> int:
    """Returns the number of a guest's queue pairs that serve connections."""
    return guest.sh("rdma resource show qp").count(" type RC ")


def _await_queue_pairs(guest: Guest, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while (left := queue_pairs(guest)) > count:
        if time.monotonic() > deadline:
            raise GuestError(f"{left} queue pairs are left instead of {count}")
        time.sleep(0.2)


def device_kilobytes(vmallocinfo: str) -> int:
    """Returns the memory that the software device has mapped for its queues."""
    lines = [line for line in vmallocinfo.splitlines() if " rxe_queue_init" in line]
    pages = [re.search(r" pages=(\d+)", line) for line in lines]
    return sum(int(found[1]) for found in pages if found) * PAGE_KILOBYTES


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
    device = device_kilobytes(guest.read("/proc/vmallocinfo"))
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
