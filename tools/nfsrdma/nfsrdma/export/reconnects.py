# SPDX-License-Identifier: GPL-2.0
"""Reconnections of a client by the reason of the loss before.

The module shows for each transport how many connections it has made, and why it has lost the latest
one. The connections that are new since the last look count for that reason; those before the first
look count for the reason then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..connections import Connection
from .metrics import Page
from .transports import peer

#: Reconnections by peer and reason.
Counts = dict[tuple[str, str], int]

_NAME = "reconnects"
_LINE = re.compile(
    rf'^nfsrdma_{_NAME}_total{{role="client",peer="([^"\\]*)",reason="(\w+)"}} (\d+)$', re.M
)


def counted(before: Counts, found: Iterable[Connection]) -> Counts:
    """Returns the counts after a look. Peers without a transport are forgotten."""
    after: Counts = {}
    by_peer: dict[str, list[Connection]] = {}
    for conn in found:
        if conn.role == "client":
            by_peer.setdefault(peer(conn), []).append(conn)
    for name, conns in by_peer.items():
        known = {key: count for key, count in before.items() if key[0] == name}
        made = sum(max(0, conn["connects"] - 1) for conn in conns)
        new = made - sum(known.values())
        if new < 0:
            # A transport has gone, or the module was loaded again.
            known, new = {}, made
        # The loss before a new connection is the latest of the peer's transports that are up.
        latest = min(conns, key=lambda conn: (not conn.is_up, conn.lost == "none", conn["state_s"]))
        key = (name, latest.lost)
        after |= known
        if new:
            after[key] = after.get(key, 0) + new
    return after


def tell(page: Page, counts: Counts) -> None:
    """Adds the counters."""
    does = "Connections that replaced a lost one, by the reason of the loss."
    for (name, reason), count in counts.items():
        page.counter(_NAME, does).add(count, {"role": "client", "peer": name, "reason": reason})


def parse(text: str) -> Counts:
    """Returns the counts that an earlier text has."""
    return {(name, reason): int(count) for name, reason, count in _LINE.findall(text)}
