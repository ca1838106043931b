# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma rails``: connections of mounts by port, with the shares of calls and bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from . import connections, mounts, paths
from .connections import Connection
from .errors import UsageError
from .host import Host, number
from .mounts import Mount
from .table import columns, duration, printable, size

DEVICES = "/sys/class/infiniband"

_CONNECTION_HEAD = ("TRANSPORT", "PORT", "SERVER", "STATE", "FOR", "CALLS", "SHARE")
_PORT_HEAD = ("PORT", "INTERFACE", "STATE", "CONNECTIONS", "BYTES", "SHARE")


@dataclass(frozen=True)
class Rail:
    """A transport of a mount. Calls are those of the interval."""

    number: int
    server: str
    conn: Connection | None
    calls: int = 0

    @property
    def port(self) -> str:
        """Device and port, as in ``rxe0/1``; empty without a connection."""
        return self.conn.device if self.conn else ""

    def as_json(self) -> dict[str, str | int]:
        """Returns what ``--json`` prints."""
        state = {"state": "up" if self.port else "down", "calls": self.calls}
        return {"transport": self.number, "port": self.port, "server": self.server, **state}


@dataclass(frozen=True)
class Port:
    """A port of a device. The bytes are those of all its users in the interval."""

    name: str
    interface: str
    state: str
    connections: int
    moved: int

    def as_json(self) -> dict[str, str | int]:
        """Returns what ``--json`` prints."""
        return {
            "port": self.name,
            "interface": self.interface,
            "state": self.state,
            "connections": self.connections,
            "bytes": self.moved,
        }


def show(host: Host, point: str, seconds: float, as_json: bool) -> str:
    """Returns the rails of the mount at `point`, or of all mounts by RDMA if it is empty.

    # Errors
    `UsageError`: there is no such mount, or the kernel or the module does not show its transports.
    """
    chosen = _chosen(host, point)
    before = _by_number(connections.read(host))
    bytes_before = {name: _moved(host, name) for name in _ports(before.values())}
    host.pause(seconds)
    after = _by_number(connections.read(host))
    rails = {mount.point: _rails(host, mount, before, after) for mount in chosen}
    used = [rail.port for found in rails.values() for rail in found if rail.port]
    ports = [
        _port(host, name, used.count(name), bytes_before) for name in sorted({*used, *bytes_before})
    ]
    return _json(rails, ports) if as_json else _text(chosen, rails, ports, seconds)


def change(host: Host, point: str, address: str, transport: int | None) -> str:
    """Adds a path to an address, or removes a transport. Returns what was done.

    # Errors
    `UsageError`: there is no such mount, or the kernel refuses.
    """
    if not point:
        raise UsageError("which mount? name its mount point")
    mount = _chosen(host, point)[0]
    if transport is not None:
        return f"xprt-{paths.remove(host, mount, transport).number} was removed"
    added = paths.add(host, mount, address)
    return f"xprt-{added.number} leads to {added.server}"


def _chosen(host: Host, point: str) -> list[Mount]:
    found = [mount for mount in mounts.mounts(host) if mount.is_rdma]
    if not point:
        if found:
            return found
        raise UsageError("no file system is mounted by RDMA")
    # A later mount covers an earlier one.
    named = [mount for mount in found if mount.point == (point.rstrip("/") or "/")]
    if named:
        return named[-1:]
    raise UsageError(f"nothing is mounted by RDMA at {point}; nfsrdma list shows the mounts")


def _by_number(found: Iterable[Connection]) -> dict[int, Connection]:
    """Returns the connections of this client by the number of their transport.

    # Errors
    `UsageError`: the module does not show these numbers.
    """
    up = [conn for conn in found if conn.is_up and conn.role == "client"]
    if any("xprt" not in conn.numbers for conn in up):
        raise UsageError("this version of the module does not show the numbers of transports")
    return {conn["xprt"]: conn for conn in up}


def _rails(
    host: Host, mount: Mount, before: dict[int, Connection], after: dict[int, Connection]
) -> list[Rail]:
    found = []
    for path in paths.of(host, mount):
        conn, earlier = after.get(path.number), before.get(path.number)
        calls = conn["calls"] - (earlier["calls"] if earlier else 0) if conn else 0
        found.append(Rail(path.number, path.server, conn, max(0, calls)))
    return found


def _ports(found: Iterable[Connection]) -> set[str]:
    return {conn.device for conn in found}


def _folder(name: str) -> str:
    device, _, port = name.rpartition("/")
    return f"{DEVICES}/{device}/ports/{port}"


def _interface(host: Host, name: str) -> str:
    folder = f"{_folder(name)}/gid_attrs/ndevs"
    texts = (host.read(f"{folder}/{index}") for index in host.names(folder))
    return next((text.strip() for text in texts if text), "")


def _moved(host: Host, name: str) -> int:
    """Returns the bytes that a port has sent and received.

    Without counters of the port, as in devices that are made of software, these are the bytes of
    its interface.
    """
    folder, interface = f"{_folder(name)}/counters", _interface(host, name)
    # The counters of InfiniBand have units of four bytes.
    words = [number(host.read(f"{folder}/port_{way}_data")) for way in ("xmit", "rcv")]
    if None not in words:
        return 4 * sum(word or 0 for word in words)
    statistics = f"/sys/class/net/{interface}/statistics"
    return sum(number(host.read(f"{statistics}/{way}_bytes")) or 0 for way in ("tx", "rx"))


def _port(host: Host, name: str, count: int, before: dict[str, int]) -> Port:
    # The text is a number and a word, as in "4: ACTIVE".
    state = (host.read(f"{_folder(name)}/state") or "?").rpartition(":")[2].strip()
    moved = _moved(host, name)
    return Port(name, _interface(host, name), state, count, moved - before.get(name, moved))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _text(
    chosen: list[Mount], rails: dict[str, list[Rail]], ports: list[Port], seconds: float
) -> str:
    lines = []
    for mount in chosen:
        found = rails[mount.point]
        head = f"{mount.point} (NFSv{mount.version}, {mount.source}), {seconds:g} s"
        lines.append(printable(head))
        total = sum(rail.calls for rail in found)
        lines += columns([_CONNECTION_HEAD, *(_row(rail, total) for rail in found)])
    total = sum(port.moved for port in ports)
    lines.append("Ports (bytes of all their users)")
    rows = (
        (
            port.name,
            port.interface or "-",
            port.state,
            str(port.connections),
            size(port.moved),
            _share(port.moved, total),
        )
        for port in ports
    )
    return "\n".join([*lines, *columns([_PORT_HEAD, *rows])])


def _row(rail: Rail, total: int) -> tuple[str, ...]:
    return (
        f"xprt-{rail.number}",
        rail.port or "-",
        rail.server,
        "up" if rail.port else "down",
        duration(rail.conn["state_s"]) if rail.conn else "-",
        str(rail.calls),
        _share(rail.calls, total),
    )


def _json(rails: dict[str, list[Rail]], ports: list[Port]) -> str:
    told = [
        {"point": point, "transports": [rail.as_json() for rail in found]}
        for point, found in rails.items()
    ]
    return json.dumps({"mounts": told, "ports": [port.as_json() for port in ports]}, indent=2)
