# SPDX-License-Identifier: GPL-2.0
"""Checks whether nfsd of this host serves RDMA."""

from __future__ import annotations

from collections.abc import Iterator

from ..host import number
from ..mounts import PORTLIST
from .kinds import Finding, finding
from .view import Fact, View

_THREADS = "/proc/fs/nfsd/threads"
#: The words for yes of nfs.conf(5), in small letters.
_YES = ("1", "t", "true", "y", "yes", "on")
#: The fewest threads that are recommended.
_FEW = 8


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines nfsd. A host without nfsd is not a server, which is no finding."""
    threads = number((view.host.read(_THREADS) or "").split(" ")[0])
    if view.listeners:
        yield from _check_port(view)
        yield from _check_threads(view, threads)
    elif threads and (view.host.read(PORTLIST) or "").strip():
        # An nfsd without any port has just been started, or is of another network namespace.
        yield finding("no-listener" if _is_wanted(view) else "tcp-only")


def _is_wanted(view: View) -> bool:
    """Whether nfs.conf says that nfsd serves RDMA."""
    told = view.host.run("nfsconf", "--get", "nfsd", "rdma")
    return told.status == 0 and told.out.strip().lower() in _YES


def _check_port(view: View) -> Iterator[Finding]:
    """Compares the ports with nfs.conf. A further port may have been added by hand."""
    ports = [listener.port for listener in view.listeners]
    told = view.host.run("nfsconf", "--get", "nfsd", "rdma-port")
    wanted = number(told.out) if told.status == 0 else None
    if wanted and wanted not in ports and _is_wanted(view):
        yield finding("listener-differs", wanted=wanted, port=ports[0])


def _check_threads(view: View, threads: int | None) -> Iterator[Fact | Finding]:
    """Compares the threads with the calls. Root alone may read how many threads there are."""
    served = [conn for conn in view.connections if conn.role == "server"]
    listens = f"nfsd listens on RDMA port {view.listeners[0].port}"
    if threads is None:
        yield Fact(listens)
    elif not threads:
        yield finding("no-threads", port=view.listeners[0].port)
    else:
        yield Fact(f"{listens}: {threads} threads, {len(served)} connections")
        calls = sum(conn["in_use"] for conn in served)
        if threads < calls:
            more = max(_FEW, 2 * threads)
            yield finding("few-threads", threads=threads, calls=calls, more=more)
