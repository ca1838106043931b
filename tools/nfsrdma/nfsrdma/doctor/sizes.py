# SPDX-License-Identifier: GPL-2.0
"""Compares sizes and queues of connections with the settings of this host.

A connection shows the smaller value of both ends, so it tells which end limits it. Findings of a
server with many clients name the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..connections import Connection
from ..host import number
from .device import payload
from .gid import has_gids
from .kinds import Finding, finding
from .view import View

_FOLDER = "/proc/sys/sunrpc"
#: The default of the inline thresholds: less than that is another finding.
_DEFAULT = 4096
#: The size on a connection of version two at work, where a setting has its default.
_AT_WORK = 8192
#: A client announces its thresholds in version one in units of this many bytes.
_UNIT = 1024
#: Payloads of a packet of RoCE: the longest, and that below which any message is slow.
_LONGEST, _SHORTEST = 4096, 1024


def check(view: View) -> Iterator[Finding]:
    """Examines the connections that are up."""
    up = [conn for conn in view.connections if conn.is_up]
    clients = [conn for conn in up if conn.role == "client"]
    served = [conn for conn in up if conn.role == "server"]
    yield from _limited_by_server(view, clients)
    yield from _limited_by_clients(view, served)
    yield from _accepted_before(view, served)
    yield from _short(view, clients, "rdma_slot_table_entries")
    yield from _short(view, served, "svc_rdma/max_requests")
    yield from _packets(view, up)


def _setting(view: View, name: str) -> int:
    """Returns the value of a setting; 0 if it cannot be read."""
    return number(view.host.read(f"{_FOLDER}/{name}")) or 0


def _limited_by_server(view: View, conns: list[Connection]) -> Iterator[Finding]:
    """Finds peers that limit a client whose settings are above the default."""
    ours = (
        ("call_bytes", _setting(view, "rdma_max_inline_write") // _UNIT * _UNIT),
        ("reply_bytes", _setting(view, "rdma_max_inline_read") // _UNIT * _UNIT),
    )
    for conn in {conn.peer: conn for conn in conns}.values():
        less = [(conn[field], mine) for field, mine in ours if _DEFAULT <= conn[field] < mine]
        if less:
            size, mine = min(less)
            yield finding("server-limits", peer=conn.peer, bytes=size, ours=mine)


def _limited_by_clients(view: View, conns: list[Connection]) -> Iterator[Finding]:
    """Finds clients that take less than a server whose setting is above the default."""
    ours = _setting(view, "svc_rdma/max_req_size")
    if ours <= _DEFAULT:
        return
    limited = [conn for conn in conns if _smallest(conn) < ours // _UNIT * _UNIT]
    if limited:
        size = min(map(_smallest, limited))
        peer = limited[0].peer
        yield finding("clients-limit", peer=peer, bytes=size, ours=ours, count=len(limited))


def _smallest(conn: Connection) -> int:
    return min(conn["call_bytes"], conn["reply_bytes"])


def _accepted_before(view: View, conns: list[Connection]) -> Iterator[Finding]:
    """Finds connections of a server that allow more than its settings: those were higher."""
    calls, size = (_setting(view, f"svc_rdma/{name}") for name in ("max_requests", "max_req_size"))
    automatic = size == _DEFAULT and _setting(view, "svc_rdma/inline_auto") == 1
    for field, name, now, most in (
        ("credit_limit", "max_requests", calls, calls),
        ("call_bytes", "max_req_size", size, _AT_WORK if automatic else size),
    ):
        kept = [conn for conn in conns if 0 < most < conn[field]]
        if kept:
            values = {"then": kept[0][field], "now": now, "count": len(kept)}
            told = f"svc_rdma.{name}"
            yield finding("settings-later", name=told, peer=kept[0].peer, **values)


def _short(view: View, conns: list[Connection], name: str) -> Iterator[Finding]:
    """Finds devices whose connections have room for fewer calls than a setting says."""
    wanted = _setting(view, name)
    by_device: dict[str, list[Connection]] = {}
    for conn in conns:
        if 0 < conn["credit_limit"] < wanted:
            by_device.setdefault(conn.texts.get("device", "?"), []).append(conn)
    for device, short in by_device.items():
        yield finding(
            "queue-short",
            device=device,
            limit=min(conn["credit_limit"] for conn in short),
            name=name.replace("/", "."),
            wanted=wanted,
            count=len(short),
            peer=short[0].peer,
        )


def _packets(view: View, conns: list[Connection]) -> Iterator[Finding]:
    """Finds ports whose packets are short for inline messages that somebody has made longer."""
    for port in view.ports:
        mtu = int(view.interfaces.get(port.netdev, {}).get("mtu", 0))
        roce = payload(mtu)
        where = f"{port.device}/{port.port}"
        sizes = (max(c["call_bytes"], c["reply_bytes"]) for c in conns if c.device == where)
        largest = max(sizes, default=0)
        if not has_gids(view.host, port) or not _SHORTEST <= roce < _LONGEST:
            continue
        if largest <= _AT_WORK:
            continue
        packets = -(-largest // roce)
        named = {"netdev": port.netdev, "mtu": mtu, "roce": roce}
        yield finding("mtu-packets", bytes=largest, packets=packets, **named)
