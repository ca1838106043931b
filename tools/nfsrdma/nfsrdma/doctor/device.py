# SPDX-License-Identifier: GPL-2.0
"""Checks for devices with links and addresses, and for the GIDs of RoCE that carry these."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import replace

from . import gid, priority
from .kinds import Finding, finding
from .view import Fact, Port, View

#: The bytes of an MTU of Ethernet that the kernel reserves for the headers of RoCE (iboe_get_mtu).
_HEADERS = 96
#: The sizes of payloads that InfiniBand knows.
_PAYLOADS = (256, 512, 1024, 2048, 4096)


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines each port of each device."""
    if not view.ports:
        yield finding("no-device")
    for port in view.ports:
        found = list(_check_port(view, port))
        yield from found or [_fact(view, port)]


def _fact(view: View, port: Port) -> Fact:
    where = f" on {port.netdev}" if port.netdev else ""
    told = _addresses(view, port)
    if gid.has_gids(view.host, port):
        told = list(gid.told(told, _gids(view, port)))
    addresses = f": {', '.join(told)}" if told else ""
    return Fact(f"{port.device}/{port.port}{where} is active{addresses}")


def _gids(view: View, port: Port) -> gid.Table:
    return gid.look_up(view.host, port, view.netdevs_of(port), _addresses(view, port))


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
        yield from _check_addresses(view, port)
    if port.is_iwarp:
        return
    if gid.has_gids(view.host, port):
        yield from _check_gids(view, port)
    mtu = int(view.interfaces.get(port.netdev, {}).get("mtu", 0))
    if 0 < mtu - _HEADERS < 1024:
        yield finding("mtu-small", netdev=port.netdev, mtu=mtu, roce=payload(mtu))
    yield from priority.check_port(view, port)


def _check_addresses(view: View, port: Port) -> Iterator[Finding]:
    """Reports a port without an address, or with link-local ones that no mount uses.

    It is no fault if a mount can use another port.
    """
    near = [to for to in view.targets if ipaddress.ip_address(to.partition("%")[0]).is_link_local]
    if _has_address(view, port) and any(view.netdev_to(to) in view.netdevs_of(port) for to in near):
        return
    is_note = any(_has_address(view, other) for other in view.ports if other.is_active)
    yield replace(finding("no-address", device=port.device, netdev=port.netdev), is_note=is_note)


def _has_address(view: View, port: Port) -> bool:
    """Whether a mount can use a port, be it by a link-local address."""
    return any(view.interfaces.get(name, {}).get("addr_info") for name in view.netdevs_of(port))


def payload(mtu: int) -> int:
    """Returns the bytes that a packet of RoCE carries with an MTU of Ethernet; 0 if none."""
    return max((size for size in _PAYLOADS if size <= mtu - _HEADERS), default=0)


def _check_gids(view: View, port: Port) -> Iterator[Finding]:
    """Reports addresses without a GID if the table is full.

    Another reason is the inactive half of a bond, whose addresses are carried by the active half.
    """
    table = _gids(view, port)
    if not table.missing or not table.is_full:
        return
    first, *_ = table.missing
    netdev, prefix = next(
        (name, entry.get("prefixlen", 32))
        for name in view.netdevs_of(port)
        for entry in view.interfaces.get(name, {}).get("addr_info", [])
        if entry.get("local") == first
    )
    yield finding(
        "gids-full",
        device=port.device,
        port=port.port,
        count=len(table.missing),
        address=first,
        size=table.size,
        netdev=netdev,
        prefix=prefix,
    )


def _kind_of_down(view: View, port: Port) -> str:
    if not view.misses_ports:
        return "port-unused"
    return "link-down" if _is_off(view, port.netdev) else "port-down"


def _is_off(view: View, netdev: str) -> bool:
    """Whether the interface was set down by an administrator."""
    entry = view.interfaces.get(netdev)
    return entry is not None and "UP" not in entry.get("flags", [])
