# SPDX-License-Identifier: GPL-2.0
"""Looks for devices with links, addresses and GIDs."""

from __future__ import annotations

from collections.abc import Iterator

from .kinds import Finding, finding
from .view import Fact, Port, View

#: The bytes of headers around the payload of a RoCE packet.
_HEADERS = 76
#: The sizes of payloads that InfiniBand knows.
_PAYLOADS = (256, 512, 1024, 2048, 4096)


def check(view: View) -> Iterator[Fact | Finding]:
    """Looks at each port of each device."""
    if not view.ports:
        yield finding("no-device")
    for port in view.ports:
        found = list(_check_port(view, port))
        yield from found or [_fact(view, port)]


def _fact(view: View, port: Port) -> Fact:
    where = f" on {port.netdev}" if port.netdev else ""
    addresses = ", ".join(_addresses(view, port))
    return Fact(f"{port.device}/{port.port}{where} is active{': ' if addresses else ''}{addresses}")


def _addresses(view: View, port: Port) -> list[str]:
    """Returns the addresses of the interfaces of a port, and of VLANs and bonds above them."""
    return [address for name in view.netdevs_of(port) for address in view.addresses_of(name)]


def _check_port(view: View, port: Port) -> Iterator[Finding]:
    named = {"device": port.device, "port": port.port, "netdev": port.netdev}
    if not port.is_active:
        yield finding(_kind_of_down(view, port), state=port.state, **named)
        return
    if not port.netdev:
        return
    if port.netdev in view.interfaces and not _addresses(view, port):
        yield finding("no-address", **named)
    if port.is_iwarp:
        return
    mtu = int(view.interfaces.get(port.netdev, {}).get("mtu", 0))
    if 0 < mtu - _HEADERS < 1024:
        roce = max((size for size in _PAYLOADS if size <= mtu - _HEADERS), default=0)
        yield finding("mtu-small", netdev=port.netdev, mtu=mtu, roce=roce)


def _kind_of_down(view: View, port: Port) -> str:
    if not view.misses_ports:
        return "port-unused"
    return "link-down" if _is_off(view, port.netdev) else "port-down"


def _is_off(view: View, netdev: str) -> bool:
    """Whether the interface was set down by an administrator."""
    entry = view.interfaces.get(netdev)
    return entry is not None and "UP" not in entry.get("flags", [])
