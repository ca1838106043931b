# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma list``: connections, mounts and listeners, one line each."""

from __future__ import annotations

import json

from . import connections, mounts
from .connections import Connection
from .errors import UsageError
from .host import Host
from .mounts import Listener, Mount
from .table import columns, duration

_HEAD = (
    "ROLE",
    "PEER",
    "DEVICE",
    "VERSION",
    "STATE",
    "FOR",
    "CALL/REPLY",
    "CREDITS",
    "IN USE",
    "MADE",
    "LAST LOSS",
)


def show(host: Host, as_json: bool) -> str:
    """Returns the listing.

    # Errors
    `UsageError`: nothing at all can be listed.
    """
    mounted = [mount for mount in mounts.mounts(host) if mount.is_rdma]
    listening = mounts.listeners(host)
    problem = ""
    found: list[Connection] = []
    try:
        found = connections.read(host)
    except UsageError as error:
        if not mounted and not listening:
            raise
        problem = str(error)
    if as_json:
        return _json(found, mounted, listening, problem)
    return _text(found, mounted, listening, problem)


def _json(
    found: list[Connection], mounted: list[Mount], listening: list[Listener], problem: str
) -> str:
    told = {
        "connections": [conn.as_json() for conn in found],
        "mounts": [mount.as_json() for mount in mounted],
        "listeners": [listener.as_json() for listener in listening],
    }
    return json.dumps(told | ({"problem": problem} if problem else {}), indent=2)


def _text(
    found: list[Connection], mounted: list[Mount], listening: list[Listener], problem: str
) -> str:
    lines = ["Connections"]
    if found:
        lines += columns([_HEAD, *map(_row, found)])
    else:
        lines.append(f"  unknown: {problem}" if problem else "  none")
    lines.append("Mounts")
    rows = [
        (mount.point, mount.source, f"NFSv{mount.version}", mount.address, _sizes(mount))
        for mount in mounted
    ]
    lines += columns(rows) if rows else ["  none"]
    lines.append("Listeners")
    lines += [f"  {entry.transport} port {entry.port}" for entry in listening] or ["  none"]
    return "\n".join(lines)


def _sizes(mount: Mount) -> str:
    return f"rsize={mount.options.get('rsize', '?')} wsize={mount.options.get('wsize', '?')}"


def _row(conn: Connection) -> tuple[str, ...]:
    up = conn.is_up
    return (
        conn.role,
        conn.peer,
        conn.device or "-",
        str(conn["version"]) if up else "-",
        _state(conn),
        duration(conn["state_s"]),
        f"{conn['call_bytes']}/{conn['reply_bytes']}" if up else "-",
        f"{conn['credits']}/{conn['credit_limit']}" if up else "-",
        str(conn["in_use"]) if up else "-",
        str(conn["connects"]),
        conn.lost,
    )


def _state(conn: Connection) -> str:
    if conn.is_up:
        return f"silent {conn['silent']}" if conn.role == "client" and conn["silent"] else "up"
    if not conn["failures"]:
        return "down"
    return ", ".join(filter(None, ("down", f"{conn['failures']} failed", conn.next_attempt)))
