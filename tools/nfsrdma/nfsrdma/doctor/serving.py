# SPDX-License-Identifier: GPL-2.0
"""Looks whether nfsd of this host serves RDMA."""

from __future__ import annotations

from collections.abc import Iterator

from ..host import number
from ..mounts import PORTLIST
from .kinds import Finding, finding
from .view import Fact, View

_THREADS = "/proc/fs/nfsd/threads"
#: The threads for each connection below which a server is called short of them.
_THREADS_FOR_EACH = 1
#: The fewest threads that are recommended.
_FEW = 8


def check(view: View) -> Iterator[Fact | Finding]:
    """Looks at nfsd. A host on which it does not run is no server, which is no finding."""
    threads = number((view.host.read(_THREADS) or "").split(" ")[0]) or 0
    served = [conn for conn in view.connections if conn.role == "server"]
    if not view.listeners:
        # An nfsd without any port has just been started, or is of another network namespace.
        if threads and (view.host.read(PORTLIST) or "").strip():
            yield finding("no-listener")
        return
    port = view.listeners[0].port
    if not threads:
        yield finding("no-threads", port=port)
        return
    yield Fact(f"nfsd listens on RDMA port {port}: {threads} threads, {len(served)} connections")
    if threads < _THREADS_FOR_EACH * len(served):
        more = max(_FEW, 2 * len(served))
        yield finding("few-threads", threads=threads, clients=len(served), more=more)
