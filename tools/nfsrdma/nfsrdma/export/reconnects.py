# SPDX-License-Identifier: GPL-2.0
"""Reconnections of a client by the reason of the loss before.

The module shows for each transport how many connections it has made, and why it has lost the latest
one. The connections that are new since the last look count for that reason. Those before the first
look are not counted: their reasons are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..connections import Connection
from .metrics import Page
from .transports import peer

#: Reconnections by peer and reason.
Counts = dict[tuple[str, str], int]

_NAME, _PRESENT = "reconnects", "transport_reconnects"
_LABELS = r'role="client",peer="([^"\\]*)"'
_COUNTED = re.compile(rf'^nfsrdma_{_NAME}_total{{{_LABELS},reason="(\w+)"}} (\d+)$', re.M)
_MADE = re.compile(rf"^nfsrdma_{_PRESENT}{{{_LABELS}}} (\d+)$", re.M)


@dataclass(frozen=True)
class Seen:
    """The reconnections that looks have seen."""

    counts: Counts
    #: Those of the transports that the last look has found, by peer.
    made: dict[str, int]


def counted(before: Seen | None, found: Iterable[Connection]) -> Seen:
    """Returns the reconnections after a look. Peers without a transport are forgotten.

    `before`: those after the last look; None before the first one.
    """
    by_peer: dict[str, list[Connection]] = {}
    for conn in found:
        if conn.role == "client":
            by_peer.setdefault(peer(conn), []).append(conn)
    made = {
        name: sum(max(0, conn["connects"] - 1) for conn in conns) for name, conns in by_peer.items()
    }
    if before is None:
        return Seen({}, made)
    counts = {key: count for key, count in before.counts.items() if key[0] in made}
    for name, conns in by_peer.items():
        # There are fewer if a transport has gone, or the module was loaded again.
        new = made[name] - before.made.get(name, 0)
        if new > 0:
            key = (name, _latest_loss(conns))
            counts[key] = counts.get(key, 0) + new
    return Seen(counts, made)


def _latest_loss(conns: list[Connection]) -> str:
    """Returns the reason of the loss before the newest connection of a peer's transports."""
    return min(conns, key=lambda conn: (not conn.is_up, conn.lost == "none", conn["state_s"])).lost


def tell(page: Page, seen: Seen) -> None:
    """Adds the counters."""
    does = "Connections that replaced a lost one, of the present transports."
    for name, made in seen.made.items():
        page.gauge(_PRESENT, does).add(made, {"role": "client", "peer": name})
    does = "Connections that replaced a lost one since the first look, by the reason of the loss."
    for (name, reason), count in seen.counts.items():
        page.counter(_NAME, does).add(count, {"role": "client", "peer": name, "reason": reason})


def parse(text: str) -> Seen | None:
    """Returns the reconnections that an earlier text has; None if it does not have them."""
    if "\nnfsrdma_up 1\n" not in text:
        return None
    counts = {(name, reason): int(count) for name, reason, count in _COUNTED.findall(text)}
    return Seen(counts, {name: int(made) for name, made in _MADE.findall(text)})
