# SPDX-License-Identifier: GPL-2.0
"""Metrics of the transports that the module shows.

Series are bounded by the peers and the devices: the transports of one peer over one port of a
device are added up. The number of a line and the TCP port of a client would make a new series with
each reconnection, and are no labels.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..connections import Connection
from .metrics import Labels, Page

#: Gauges that are added up: name, field, and description.
_SUMS = (
    ("credit_limit", "credit_limit", "Most credits: requested by a client, granted by a server."),
    ("credits", "credits", "Granted credits."),
    ("calls_in_progress", "in_use", "Calls without a reply."),
    ("calls_fencing", "fencing", "Answered or aborted calls whose memory is being invalidated."),
    ("receives", "receives", "Receives, posted or not."),
    ("receives_posted", "receives_posted", "Posted Receives."),
    ("send_queue_entries", "send_queue", "Entries of the send queues."),
    ("send_queue_free_entries", "send_queue_free", "Entries that are known to be free."),
    ("terms_changes", "terms", "Changes of the terms of the present connections."),
)
_FORMS = ("inline", "read", "write", "reply")
_REGIONS = ("idle", "used", "unusable")


def tell(page: Page, found: Iterable[Connection]) -> None:
    """Adds the metrics of all transports."""
    for conn in found:
        _tell_always(page, conn)
        if conn.is_up:
            _tell_up(page, conn)
        elif conn.role == "client":
            _tell_down(page, conn)


def peer(conn: Connection) -> str:
    """Returns the label of a peer: a client's port changes with each of its connections."""
    return conn.peer if conn.role == "client" else conn.address


def _tell_always(page: Page, conn: Connection) -> None:
    labels = {"role": conn.role, "peer": peer(conn)}
    does = "Probes of the peer while it was silent, by the present transports."
    page.gauge("transport_probes", does).add(conn["probes"], labels)
    does = "Breaches of the protocol by the peer on the present transports."
    page.gauge("transport_breaches", does).add(conn["breaches"], labels)
    if conn.role != "client":
        return
    does = "Transports of this client without a connection."
    page.gauge("transports_down", does).add(not conn.is_up, labels)
    does = "Connections that this client has made."
    page.counter("connects", does).add(conn["connects"], labels)
    does = "Failed attempts to connect since the last success."
    page.gauge("connect_failures", does).add(conn["failures"], labels)


def _tell_down(page: Page, conn: Connection) -> None:
    """Adds the back-off of a client."""
    labels = {"role": conn.role, "peer": peer(conn)}
    does = "Time since the first failed attempt to connect; the longest of the transports."
    page.gauge("connect_failing_seconds", does).most(conn["failing_s"], labels)
    if conn.numbers.get("next_attempt_s", -1) >= 0:
        does = "Time until the next attempt to connect; absent if none is planned."
        page.gauge("next_attempt_seconds", does).least(conn["next_attempt_s"], labels)


def _tell_up(page: Page, conn: Connection) -> None:
    labels = {
        "role": conn.role,
        "peer": peer(conn),
        "device": conn.texts.get("device", ""),
        "port": str(conn["port"]),
    }
    does = "Connections, by the version of RPC-over-RDMA."
    page.gauge("connections", does).add(1, labels | {"version": str(conn["version"])})
    for name, source, does in _SUMS:
        page.gauge(name, does).add(conn[source], labels)
    _tell_kinds(page, conn, labels)
    does = "Effective inline threshold, by direction; the smallest of the connections."
    threshold = page.gauge("inline_threshold_bytes", does)
    threshold.least(conn["call_bytes"], labels | {"direction": "call"})
    threshold.least(conn["reply_bytes"], labels | {"direction": "reply"})
    does = "Connections on which the server may invalidate R_keys of the client."
    page.gauge("remote_invalidation_connections", does).add(conn["invalidation"], labels)
    does = (
        "Intervals without a message while a reply was owed: of 5 s at a client, 10 s at a server."
    )
    page.gauge("silent_intervals", does).most(conn["silent"], labels)


def _tell_kinds(page: Page, conn: Connection, labels: Labels) -> None:
    does = "Calls in progress, by form; a call with chunks of two kinds counts twice."
    for form in _FORMS:
        page.gauge("calls_by_form", does).add(conn[form], labels | {"form": form})
    for state in _REGIONS:
        regions = page.gauge("regions", "Memory regions, by state.")
        regions.add(conn[f"regions_{state}"], labels | {"state": state})
