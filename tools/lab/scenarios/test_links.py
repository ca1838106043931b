# SPDX-License-Identifier: GPL-2.0
"""Other ways to the server: iWARP, IPv6, several transports, several mounts, a namespace."""

from __future__ import annotations

import pytest

from lab import namespace
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

VERIFY = "python3 /lab/verify.py"
OTHER = "/mnt/other"
LIMIT = 400


def _both_ways(pair: Pair, suite: str = "sizes", at: str = MOUNT_POINT) -> None:
    """Written on the client, checked on both sides."""
    pair.client.sh(f"{VERIFY} write {suite} {at}/up", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} check {suite} /srv/export/up", timeout=LIMIT)
    pair.client.sh("sync; echo 3 > /proc/sys/vm/drop_caches")
    pair.client.sh(f"{VERIFY} check {suite} {at}/up", timeout=LIMIT)


def _sends(pair: Pair, at: str = MOUNT_POINT) -> list[int]:
    """Calls sent by each transport of one mount."""
    inside, found = False, []
    for line in pair.client.read("/proc/self/mountstats").splitlines():
        if line.startswith("device "):
            inside = f" mounted on {at} " in line
        elif inside and line.strip().startswith("xprt:"):
            found.append(int(line.split()[7]))
    return found


@pytest.mark.parametrize("pair", [Options(link="siw")], indirect=True)
def test_iwarp(pair: Pair) -> None:
    """The other software device; `LINK=siw` runs every scenario over it."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    assert "siw0" in pair.client.sh("rdma resource show cm_id | grep -F 10.0.0.2")
    _both_ways(pair)
    _both_ways(pair, "names")
    pair.umount()


@pytest.mark.parametrize("version", ["4.2", pytest.param("3", marks=pytest.mark.full)])
def test_ipv6(pair: Pair, version: str) -> None:
    """The netid rdma6, end to end."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version, proto="rdma6")
    options = pair.client.sh(f"findmnt -no OPTIONS {MOUNT_POINT}")
    assert "proto=rdma6" in options
    assert "addr=fd00::1" in options
    _both_ways(pair)
    pair.umount()


@pytest.mark.parametrize("count", [4, pytest.param(16, marks=pytest.mark.full)])
def test_nconnect(pair: Pair, count: int) -> None:
    """So many transports, each with a connection of its own, and each of them at work."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2", options=f"nconnect={count}")
    _both_ways(pair)
    sends = _sends(pair)
    print(f"calls by transport: {sends}")
    assert len(sends) == count
    assert min(sends) > 0
    pair.umount()


def test_two_mounts(pair: Pair) -> None:
    """Two mounts with transports of their own; one goes while the other works."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    pair.mount("3", options="nosharecache", at=OTHER)
    writer = pair.client.vm.start(f"{VERIFY} write big {MOUNT_POINT}/r")
    _both_ways(pair, at=OTHER)
    pair.umount(OTHER)
    done = pair.client.vm.agent.wait(writer, LIMIT)
    assert done.status == 0, done.stderr.decode()
    pair.server.sh(f"{VERIFY} check big /srv/export/r", timeout=LIMIT)
    pair.umount()


@pytest.mark.full
def test_port(pair: Pair) -> None:
    """A server that listens elsewhere, too."""
    pair.server.sh("rm -rf /srv/export/*; echo 'rdma 20051' > /proc/fs/nfsd/portlist")
    words = "vers=4.2,proto=rdma,port=20051"
    pair.client.sh(f"mkdir -p {MOUNT_POINT}; mount -t nfs -o {words} server:/export {MOUNT_POINT}")
    assert "port=20051" in pair.client.sh(f"findmnt -no OPTIONS {MOUNT_POINT}")
    pair.client.sh(f"echo elsewhere > {MOUNT_POINT}/f && sync {MOUNT_POINT}/f")
    assert pair.server.read("/srv/export/f") == "elsewhere\n"
    pair.umount()


# siw makes its sockets in the namespace of whoever calls: that of a worker, the first one.
@pytest.mark.full
@pytest.mark.rxe_only
@pytest.mark.parametrize("version", ["4.2", "3"])
def test_namespace(pair: Pair, version: str) -> None:
    """A mount in a network namespace goes through that namespace's device."""
    pair.server.sh("rm -rf /srv/export/*")
    namespace.ensure(pair)
    # Nobody serves NFSv3's locks in there.
    pair.mount(version, options="nolock" if version == "3" else "", namespace=namespace.NAME)
    assert namespace.device(pair) in pair.client.sh("rdma resource show cm_id | grep -F 10.0.1.2")
    _both_ways(pair)
    pair.umount()
