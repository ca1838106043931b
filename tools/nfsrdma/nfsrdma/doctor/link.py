# SPDX-License-Identifier: GPL-2.0
"""Examines the connections."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from .. import connections
from ..connections import LOSSES, Connection
from ..table import duration
from . import spread
from .kinds import Finding, finding
from .view import Fact, View

#: Seconds between two looks of the client at a silent server.
_LOOK = 5
#: Connections for each hour of a transport's age that are not worth a word.
_USUAL = 12

_BY_ERROR = {
    errno.ECONNREFUSED: "refused",
    errno.ENETUNREACH: "unreachable",
    errno.EHOSTUNREACH: "unreachable",
    errno.ETIMEDOUT: "not-answering",
}


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines each connection, and the breaches of the whole module."""
    for conn in view.connections:
        found = list(_check(view, conn))
        yield from found or [_fact(conn)]
        if conn.attempts:
            yield Fact(f"{conn.role} {conn.peer}: {conn.attempts}")
    yield from spread.check(view)
    yield from _breaches(view, "breaches", "breaches")
    yield from _breaches(view, "requester_breaches", "requester-breaches")


def _fact(conn: Connection) -> Fact:
    if not conn.is_up:
        return Fact(f"{conn.role} {conn.peer}: not connected, and not needed now")
    since = duration(conn["state_s"])
    return Fact(f"{conn.role} {conn.peer}: version {conn['version']}, up for {since}")


def _check(view: View, conn: Connection) -> Iterator[Finding]:
    if conn["failures"] and not conn.is_up:
        kind = _BY_ERROR.get(-conn["error"], "connect-failed")
        peer = {"peer": conn.peer, "address": conn.address, "port": conn.port}
        yield finding(kind, error=conn.error, **peer)
    if conn.role == "client":
        yield from _check_client(view, conn)
    if conn["breaches"]:
        yield finding("peer-breach", peer=conn.peer, count=conn["breaches"])


def _check_client(view: View, conn: Connection) -> Iterator[Finding]:
    connects = conn["connects"]
    usual = 3 + _USUAL * conn["age_s"] // 3600
    if connects > usual and conn.lost != "closed":
        why = LOSSES.get(conn.lost, conn.lost)
        device = conn.texts.get("device", "infiniband")
        yield finding("lost-often", peer=conn.peer, connects=connects, why=why, device=device)
    if not conn.is_up:
        return
    if conn["silent"] >= 2:
        seconds = conn["silent"] * _LOOK
        yield finding("silent", peer=conn.peer, address=conn.address, seconds=seconds)
    if _is_at_limit(conn) and any(_stays(conn, later) for later in view.later_connections):
        more = conn["credit_limit"]
        yield finding("credits-out", peer=conn.peer, credits=conn["credits"], more=more)


def _is_at_limit(conn: Connection) -> bool:
    """Whether all credits are in use, and this client could use more."""
    return conn["in_use"] >= conn["credits"] > 0 and conn["credits"] < conn["credit_limit"]


def _stays(conn: Connection, later: Connection) -> bool:
    """Whether a connection is still at its limit. A server may grant more as credits are used."""
    same = later["id"] == conn["id"] and later["credits"] <= conn["credits"]
    return same and _is_at_limit(later)


def _breaches(view: View, name: str, kind: str) -> Iterator[Finding]:
    """Reports the counters of a file that are not zero."""
    counts = []
    for line in (view.host.read(f"{connections.FOLDER}/{name}") or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit() and int(words[1]):
            counts.append(f"{words[0]} {words[1]}")
    if counts:
        yield finding(kind, counts=", ".join(counts))
