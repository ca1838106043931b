# SPDX-License-Identifier: GPL-2.0
"""Examines how connections are spread over the ports of the setting rdma_local_addrs."""

from __future__ import annotations

from collections.abc import Iterator

from .kinds import Finding, finding
from .view import View

_SETTING = "/proc/sys/sunrpc/rdma_local_addrs"


def check(view: View) -> Iterator[Finding]:
    """Reports servers whose connections are more by two or more over one port than over another.

    A port that was down keeps few connections, because a connection in use does not move.
    """
    up = [conn for conn in view.connections if conn.role == "client" and conn.is_up]
    for peer in dict.fromkeys(conn.peer for conn in up):
        used = [conn.device for conn in up if conn.peer == peer]
        counts = {port: used.count(port) for port in _ports(view, is_six="[" in peer)}
        if not counts:
            continue
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[most] - counts[least] > 1:
            many, few = counts[most], counts[least]
            yield finding("ports-uneven", peer=peer, most=most, many=many, least=least, few=few)


def _ports(view: View, *, is_six: bool) -> list[str]:
    """Returns the active ports that have an address of the setting and of a family."""
    text = view.host.read(_SETTING) or ""
    listed = [address for address in text.strip().split(",") if (":" in address) == is_six]
    return [
        f"{port.device}/{port.port}"
        for port in view.ports
        if port.is_active
        and any(
            address in listed
            for netdev in view.netdevs_of(port)
            for address in view.addresses_of(netdev)
        )
    ]
