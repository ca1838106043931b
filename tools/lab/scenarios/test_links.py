# SPDX-License-Identifier: GPL-2.0
"""Mounts over iWARP and IPv6, with several transports, two at a time, and in a namespace."""

from __future__ import annotations

import pytest

from lab import namespace, settings
from lab.fixtures import Counters
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

VERIFY = "python3 /lab/verify.py"
OTHER = "/mnt/other"
LIMIT = 400


def _both_ways(pair: Pair, suite: str = "sizes", at: str = MOUNT_POINT) -> None:
    """Writes a suite on the client and checks it on both sides."""
    pair.client.sh(f"{VERIFY} write {suite} {at}/up", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} check {suite} /srv/export/up", timeout=LIMIT)
    pair.client.sh("sync; echo 3 > /proc/sys/vm/drop_caches")
    pair.client.sh(f"{VERIFY} check {suite} {at}/up", timeout=LIMIT)


def _sends(pair: Pair, at: str = MOUNT_POINT) -> list[int]:
    """Returns how many calls each transport of a mount has sent."""
    inside, found = False, []
    for line in pair.client.read("/proc/self/mountstats").splitlines():
        if line.startswith("device "):
            inside = f" mounted on {at} " in line
        elif inside and line.strip().startswith("xprt:"):
            found.append(int(line.split()[7]))
    return found


@pytest.mark.both_roles
@pytest.mark.server_long
@pytest.mark.parametrize("pair", [Options(link="siw")], indirect=True)
@pytest.mark.parametrize("version", ["3", pytest.param("4.2", marks=pytest.mark.full)])
def test_iwarp(pair: Pair, counters: Counters, version: str) -> None:
    """A mount works over siw, even under load; `LINK=siw` runs every scenario over it.

    A WRITE of NFSv3 has 1 MiB, which fills a memory region of siw to the last page. siw reports the
    server's RDMA Reads after replies that were sent later.
    """
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    assert "siw0" in pair.client.sh("rdma resource show cm_id | grep -F 10.0.0.2")
    for suite in ("sizes", "names") if settings.full() else ("sizes",):
        _both_ways(pair, suite)
    worker = Worker(pair)
    worker.await_progress(200, 100)
    print(worker.finish())
    assert counters.connects() == 1
    pair.umount()


@pytest.mark.both_roles
@pytest.mark.server_long
@pytest.mark.parametrize("version", ["4.2", pytest.param("3", marks=pytest.mark.full)])
def test_ipv6(pair: Pair, version: str) -> None:
    """A mount with the netid rdma6 goes over IPv6."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version, proto="rdma6")
    options = pair.client.sh(f"findmnt -no OPTIONS {MOUNT_POINT}")
    assert "proto=rdma6" in options
    assert "addr=fd00::1" in options
    _both_ways(pair, "append")
    pair.umount()


@pytest.mark.both_roles
@pytest.mark.full
@pytest.mark.parametrize("count", [4, 16])
def test_nconnect(pair: Pair, count: int) -> None:
    """A mount has as many transports as it asks for, and each of them sends calls."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2", options=f"nconnect={count}")
    _both_ways(pair)
    sends = _sends(pair)
    print(f"calls by transport: {sends}")
    assert len(sends) == count
    assert min(sends) > 0
    pair.umount()


def _connections(pair: Pair) -> int:
    """Returns how many connections to the server the client has."""
    return pair.client.sh("rdma resource show cm_id").count("state CONNECT")


@pytest.mark.full
@pytest.mark.both_roles
def test_two_mounts(pair: Pair) -> None:
    """Two mounts with a connection each; one goes while the other works on."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    pair.mount("3", options="nosharecache", at=OTHER)
    worker = Worker(pair)
    _both_ways(pair, at=OTHER)
    assert _connections(pair) == 2
    pair.umount(OTHER)
    print(f"20 operations after the umount: {worker.await_progress(20, 60):.1f} s")
    assert _connections(pair) == 1
    said = worker.finish()
    print(said)
    assert "errors=0" in said
    pair.umount()


@pytest.mark.both_roles
@pytest.mark.full
def test_port(pair: Pair) -> None:
    """A mount reaches a server that listens at another port as well."""
    pair.server.sh("rm -rf /srv/export/*; echo 'rdma 20051' > /proc/fs/nfsd/portlist")
    words = "vers=4.2,proto=rdma,port=20051"
    pair.client.sh(f"mkdir -p {MOUNT_POINT}; mount -t nfs -o {words} server:/export {MOUNT_POINT}")
    assert "port=20051" in pair.client.sh(f"findmnt -no OPTIONS {MOUNT_POINT}")
    pair.client.sh(f"echo elsewhere > {MOUNT_POINT}/f && sync {MOUNT_POINT}/f")
    assert pair.server.read("/srv/export/f") == "elsewhere\n"
    pair.umount()


# siw creates its sockets in the network namespace of the calling thread: for a kernel worker, that
# is the initial one.
@pytest.mark.both_roles
@pytest.mark.full
@pytest.mark.rxe_only
@pytest.mark.parametrize("version", ["4.2", "3"])
def test_namespace(pair: Pair, version: str) -> None:
    """A mount in a network namespace uses that namespace's device."""
    pair.server.sh("rm -rf /srv/export/*")
    namespace.ensure(pair)
    # Nothing serves NFSv3's locks in the namespace.
    pair.mount(version, options="nolock" if version == "3" else "", namespace=namespace.NAME)
    assert namespace.device(pair) in pair.client.sh("rdma resource show cm_id | grep -F 10.0.1.2")
    _both_ways(pair)
    pair.umount()
