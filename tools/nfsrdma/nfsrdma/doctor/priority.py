# SPDX-License-Identifier: GPL-2.0
"""Checks that the packets of RoCE have a class if the port is lossless for a priority (PFC)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..host import Host, number
from .kinds import Finding, finding
from .view import Port, View

_SETTING = "/proc/sys/sunrpc/rdma_traffic_class"


def check_port(view: View, port: Port) -> Iterator[Finding]:
    """Reports a port with PFC whose connections as a client have no traffic class.

    The packets of a server have the class that its client asks for.
    """
    serves = view.listeners and not any(mount.is_rdma for mount in view.mounts)
    if number(view.host.read(_SETTING)) != -1 or serves or _has_class(view.host, port):
        return
    lossless = _lossless(view.host, port.netdev)
    if lossless:
        first, shown = lossless[0], ", ".join(map(str, lossless))
        dscp = _dscp(view.host, port.netdev, first)
        named = {"netdev": port.netdev, "priorities": shown, "priority": first}
        yield finding("class-missing", dscp=dscp, value=dscp << 2, **named)


def _has_class(host: Host, port: Port) -> bool:
    """Whether an administrator has given the port a class for connections without one."""
    folder = f"/sys/kernel/config/rdma_cm/{port.device}/ports/{port.port}"
    return bool(number(host.read(f"{folder}/default_roce_tos")))


def _lossless(host: Host, netdev: str) -> list[int]:
    """Returns the priorities for which PFC is on, as dcb(8) shows them."""
    shown = host.run("dcb", "pfc", "show", "dev", netdev, "prio-pfc")
    return [int(number) for number in re.findall(r"\b(\d):on\b", shown.out)]


def _dscp(host: Host, netdev: str, priority: int) -> int:
    """Returns a DSCP of a priority: one of the port's table, or the usual one."""
    shown = host.run("dcb", "-N", "app", "show", "dev", netdev, "dscp-prio")
    mapped = re.search(rf"\b(\d+):{priority}\b", shown.out)
    return int(mapped[1]) if mapped else priority << 3
