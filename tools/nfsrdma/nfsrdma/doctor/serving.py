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
#: The port of NFS over RDMA, and its name, which the file services(5) of Debian lacks.
_PORT, _NAME = 20049, "nfsrdma"
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
        is_wanted, port = _wanted(view)
        yield finding("no-listener", port=port or _PORT) if is_wanted else finding("tcp-only")


def _wanted(view: View) -> tuple[bool, int | None]:
    """Returns whether nfs.conf says that nfsd serves RDMA, and the port if it names one.

    In place of a yes, rpc.nfsd takes a port or its name from files of earlier versions.
    """
    told = _setting(view, "rdma")
    if told in _YES:
        return True, number(_setting(view, "rdma-port"))
    return told == _NAME or bool(number(told)), number(told)


def _setting(view: View, name: str) -> str:
    """Returns a setting of nfsd in small letters; empty without it."""
    told = view.host.run("nfsconf", "--get", "nfsd", name)
    return told.out.strip().lower() if told.status == 0 else ""


def _check_port(view: View) -> Iterator[Finding]:
    """Compares the ports with nfs.conf. A further port may have been added by hand."""
    ports = [listener.port for listener in view.listeners]
    is_wanted, wanted = _wanted(view)
    if is_wanted and wanted and wanted not in ports:
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
