# SPDX-License-Identifier: GPL-2.0
"""Many connections to the server at once, on which nothing is sent (`tools/lab/crowd`)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import GuestError
from .pair import SERVER_ADDRESS, Guest, Pair

_OUTPUT = "/run/crowd.log"
_PATIENCE = 60.0


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
        await_queue_pairs(pair.server, before)


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


def await_queue_pairs(guest: Guest, count: int, limit: float = _PATIENCE) -> None:
    """Waits until a guest has no more than `count` queue pairs that serve connections.

    # Errors
    `GuestError` if it has more after `limit` seconds.
    """
    deadline = time.monotonic() + limit
    while (left := queue_pairs(guest)) > count:
        if time.monotonic() > deadline:
            raise GuestError(f"{left} queue pairs are left instead of {count}")
        time.sleep(0.2)
