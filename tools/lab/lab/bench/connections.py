# SPDX-License-Identifier: GPL-2.0
"""What a connection costs: time to make it, memory to keep it, time under its send lock."""

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
#: SUNRPC takes and gives the send lock: one pair with congestion control, one without.
TAKEN = ("xprt_reserve_cong", "xprt_reserve_xprt")
GIVEN = ("xprt_release_cong", "xprt_release_xprt")


def connect_time(pair: Pair, module: str, figures: Figures) -> None:
    """From SUNRPC's wish for a connection to the first call on it. Nothing is mounted before."""
    with recording(pair.client, (f"rpcrdma:{CONNECT}", f"rpcrdma:{FIRST_SEND}")) as trace:
        for _ in range(MOUNTS):
            pair.mount("4.2")
            pair.umount()
        events = trace.events()
    took = statistics.median(connects(events))
    figures.note("connect, until the first call", "ms", module, took * 1000)


def connects(events: Sequence[Event]) -> list[float]:
    """Seconds of each connection."""
    found, began = [], None
    for event in events:
        if event.name == CONNECT:
            began = event.time
        elif event.name == FIRST_SEND and began is not None:
            found.append(event.time - began)
            began = None
    if not found:
        raise GuestError("no connection was seen")
    return found


def memory(pair: Pair, module: str, figures: Figures) -> None:
    """Memory that a connection in use takes, the software device's share with it."""
    before = free_kilobytes(pair.client)
    pair.mount("4.2", options=f"nconnect={CONNECTIONS}")
    # Enough in parallel that each of them is used.
    looks = f"seq 1 400 | xargs -P 32 -I% stat {MOUNT_POINT}/none-% 2>/dev/null"
    pair.client.run(looks, timeout=120)
    after = free_kilobytes(pair.client)
    pair.umount()
    figures.note("memory per connection", "KiB", module, (before - after) / CONNECTIONS)


def send_lock(pair: Pair, module: str, figures: Figures) -> None:
    """How long a READ of 4 KiB keeps others from sending."""
    pair.server.sh("head -c 1M /dev/zero > /srv/export/ops; chmod 666 /srv/export/ops")
    with recording(pair.client, [f"sunrpc:{name}" for name in (*TAKEN, *GIVEN)]) as trace:
        pair.client.sh(f"python3 /lab/ops.py read {READS} {MOUNT_POINT}/ops", timeout=120)
        held = holds(trace.events())
    # Not the mean: a hundredth of them are interrupted for ten times as long, whoever sends.
    figures.note("send lock held, per call", "us", module, statistics.median(held) * 1e6)


def holds(events: Sequence[Event]) -> list[float]:
    """Seconds from each taking of the lock to its giving, by the task that had it."""
    since: dict[str, float] = {}
    found = []
    for event in events:
        task = event.text.split(" ")[0]
        if event.name in TAKEN:
            since[task] = event.time
        elif task in since:
            found.append(event.time - since.pop(task))
    if not found:
        raise GuestError("the send lock was never seen taken")
    return found
