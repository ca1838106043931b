# SPDX-License-Identifier: GPL-2.0
"""Examines settings, and the terms of connections that follow from them."""

from __future__ import annotations

from collections.abc import Iterator

from ..host import number
from .kinds import Finding, finding
from .view import Fact, View

_FOLDER = "/proc/sys/sunrpc"

#: Settings, and the defaults below which calls become slower.
_DEFAULTS = {
    "rdma_slot_table_entries": 128,
    "rdma_max_inline_read": 4096,
    "rdma_max_inline_write": 4096,
    "svc_rdma/max_requests": 128,
}


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines sysctls, and the thresholds that connections have."""
    found = [*_low(view), *_version(view), *_thresholds(view)]
    yield from found
    if view.module_is_ours and not found:
        yield Fact("sysctls and thresholds are the defaults, or larger")


def _low(view: View) -> Iterator[Finding]:
    for name, default in _DEFAULTS.items():
        value = number(view.host.read(f"{_FOLDER}/{name}"))
        if value is not None and value < default:
            dotted = name.replace("/", ".")
            yield finding("setting-low", name=dotted, value=value, default=default)


def _version(view: View) -> Iterator[Finding]:
    value = (view.host.read(f"{_FOLDER}/rdma_version") or "auto").strip()
    if value != "auto":
        yield finding("version-fixed", value=value)


def _thresholds(view: View) -> Iterator[Finding]:
    """Finds connections with less than the default and than this host would take.

    The peer takes less, or announces nothing, or the settings of this host were lower when the
    connection was made. A connection of version two follows the settings.
    """
    for conn in view.connections:
        if conn.role != "client" or not conn.is_up or conn["version"] != 1:
            continue
        smallest = min(conn["call_bytes"], conn["reply_bytes"])
        ours = min(
            number(view.host.read(f"{_FOLDER}/{name}")) or _DEFAULTS[name]
            for name in ("rdma_max_inline_read", "rdma_max_inline_write")
        )
        if smallest < min(ours, _DEFAULTS["rdma_max_inline_read"]):
            yield finding("threshold-low", peer=conn.peer, bytes=smallest, ours=ours)
