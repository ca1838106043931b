# SPDX-License-Identifier: GPL-2.0
"""Measures the costs of a connection: time to connect, memory, and time under the send lock."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..errors import GuestError
from ..memory import free_kilobytes
from ..pair import MOUNT_POINT, Pair
from ..tracing import Event, recording
from .figures import Figures

MOUNTS, CONNECTIONS, READS = 5, 16, 500
CONNECT, FIRST_SEND = "xprtrdma_op_connect", "xprtrdma_post_send"
#: Events of SUNRPC that take and give the send lock, with and without congestion control.
TAKEN = ("xprt_reserve_cong", "xprt_reserve_xprt")
GIVEN = ("xprt_release_cong", "xprt_release_xprt")


def connect_time(pair: Pair, module: str, figures: Figures) -> None:
    """Measures the time from SUNRPC's request for a connection to the first call on it.

    Nothing may be mounted before.
    """
    with recording(pair.client, (f"rpcrdma:{CONNECT}", f"rpcrdma:{FIRST_SEND}")) as trace:
        for _ in range(MOUNTS):
            pair.mount("4.2")
            pair.umount()
        events = trace.events()
    took = statistics.median(connects(events))
    figures.note("connect, until the first call", "ms", module, took * 1000)


def connects(events: Sequence[Event]) -> list[float]:
    """Returns the seconds that each connection took."""
    found, began = [], None
    for event in events:
        if event.name == CONNECT:
            began = event.time
        elif event.name == FIRST_SEND and began is not None:
            found.append(event.time - began)
            began = None
    if not found:
        raise GuestError("the trace has no connection")
    return found


def memory(pair: Pair, module: str, figures: Figures) -> None:
    """Measures the memory of a connection in use, including that of the software device."""
    before = free_kilobytes(pair.client)
    pair.mount("4.2", options=f"nconnect={CONNECTIONS}")
    # There are enough calls in parallel to use each connection.
    looks = f"seq 1 400 | xargs -P 32 -I% stat {MOUNT_POINT}/none-% 2>/dev/null"
    pair.client.run(looks, timeout=120)
    after = free_kilobytes(pair.client)
    pair.umount()
    figures.note("memory per connection", "KiB", module, (before - after) / CONNECTIONS)


def send_lock(pair: Pair, module: str, figures: Figures) -> None:
    """Measures how long a READ of 4 KiB holds the send lock."""
    pair.server.sh("head -c 1M /dev/zero > /srv/export/ops; chmod 666 /srv/export/ops")
    with recording(pair.client, [f"sunrpc:{name}" for name in (*TAKEN, *GIVEN)]) as trace:
        pair.client.sh(f"python3 /lab/ops.py read {READS} {MOUNT_POINT}/ops", timeout=120)
        held = holds(trace.events())
    # Not the mean: with either module one hold in a hundred is interrupted and ten times as long.
    figures.note("send lock held, per call", "us", module, statistics.median(held) * 1e6)


def holds(events: Sequence[Event]) -> list[float]:
    """Returns the seconds of each hold of the lock by a task."""
    since: dict[str, float] = {}
    found = []
    for event in events:
        task = event.text.split(" ")[0]
        if event.name in TAKEN:
            since[task] = event.time
        elif task in since:
            found.append(event.time - since.pop(task))
    if not found:
        raise GuestError("the trace has no hold of the send lock")
    return found
