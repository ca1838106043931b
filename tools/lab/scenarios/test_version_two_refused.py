# SPDX-License-Identifier: GPL-2.0
"""A client that tries version two with a server that knows version one only.

The server is the stock one, or ours with its highest version set to one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab import capture, settings, versions
from lab.fixtures import Cable, Counters, Tunables
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Pair
from lab.terms import ERR_VERS, RDMA_ERROR
from lab.versions import Exchange

pytestmark = [pytest.mark.needs_ours, pytest.mark.rxe_only]

#: Seconds that a refusal may add to a mount, on the plain kernel. Mounts of a slow host also differ
#: by as much as they take.
LIMIT = 1.0
#: Operations of NFS that may fail although all is well.
MAY_FAIL = {"LOOKUP", "GETXATTR", "ACCESS"}
WORK = f"echo well > {MOUNT_POINT}/work && sync {MOUNT_POINT}/work && ls -l {MOUNT_POINT}/"


@pytest.fixture(autouse=True)
def version_one(pair: Pair, server_tunables: Tunables) -> Iterator[None]:
    """Limits a server of ours to version one. The client forgets that after the scenario."""
    versions.limit(server_tunables, 1)
    yield
    versions.forget(pair.client)


def _mounted(pair: Pair, cable: Cable, nfs: str = "3", options: str = "") -> Exchange:
    """Mounts, works, and unmounts; returns the messages."""
    with cable.recording() as pcap:
        pair.mount(nfs, options=options)
        pair.client.sh(WORK)
        pair.umount()
    assert pair.server.read("/srv/export/work") == "well\n"
    exchange = Exchange(pcap)
    assert exchange.summary.violations == []
    return exchange


def _check_known(pair: Pair) -> None:
    """Checks that the client knows the server as one of version one."""
    (known,) = versions.peers(pair.client)
    assert (known.address, known.port, known.verdict) == (SERVER_ADDRESS, 20049, "version-1")
    assert 0 < known.left <= versions.EXPIRY


def _mount(pair: Pair, nfs: str) -> float:
    """Mounts and returns the seconds that it took."""
    began = time.monotonic()
    pair.mount(nfs)
    return time.monotonic() - began


@pytest.mark.parametrize("nfs", ["4.2", pytest.param("3", marks=pytest.mark.full)])
def test_probe(pair: Pair, tunables: Tunables, cable: Cable, counters: Counters, nfs: str) -> None:
    """One message of version two is refused; the same call goes again on the same connection."""
    versions.forget(pair.client)
    tunables.set(rdma_version=1)
    usual = _mount(pair, nfs)
    pair.umount()
    tunables.set(rdma_version=2)
    with cable.recording() as pcap:
        took = _mount(pair, nfs)
        pair.client.sh(WORK)
        stats, calls = counters(), counters.calls()
        pair.umount()
    exchange = Exchange(pcap)
    assert exchange.summary.violations == []
    probe, refusal, again = (one.message for one in exchange.sent[:3])
    assert [one.by_client for one in exchange.sent[:3]] == [True, False, True]
    assert probe.version == 2
    assert probe.size <= 1024
    assert (refusal.kind, refusal.error, refusal.versions) == (RDMA_ERROR, ERR_VERS, (1, 1))
    assert refusal.xid == again.xid == probe.xid
    assert (again.version, exchange.sent[2].queue) == (1, exchange.sent[0].queue)
    assert len(exchange.probes()) == exchange.summary.refused == exchange.summary.again == 1
    assert stats["connect_count"] == 1
    assert (stats["bad_reply"], stats["bad_xids"]) == (0, 0)
    _check_statistics(calls)
    _check_known(pair)
    print(f"mounted in {took:.2f} s; without a refusal in {usual:.2f} s")
    assert settings.flavour() != "plain" or took < 2 * usual + LIMIT


def _check_statistics(calls: dict[str, list[int]]) -> None:
    """Checks that no RPC was sent twice, timed out, or failed."""
    assert sum(values[0] for values in calls.values()) > 5
    for name, values in calls.items():
        assert values[1] == values[0], f"{name}: {values}"
        assert values[2] == 0, f"{name}: {values}"
        assert name in MAY_FAIL or values[-1] == 0, f"{name}: {values}"


@pytest.mark.full
def test_memory(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """A server that has refused is not asked again until the administrator clears the memory."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    for probes in (1, 0, 0):
        assert len(_mounted(pair, cable).probes()) == probes
        _check_known(pair)
    versions.forget(pair.client)
    assert len(_mounted(pair, cable).probes()) == 1
    _check_known(pair)


@pytest.mark.full
def test_expiry(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """A server that has refused is asked again after ten minutes, and not before."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    assert len(_mounted(pair, cable).probes()) == 1
    time.sleep(versions.EXPIRY / 2)
    # This mount uses the record, and does not renew it.
    assert len(_mounted(pair, cable).probes()) == 0
    (known,) = versions.peers(pair.client)
    assert known.left <= versions.EXPIRY / 2
    time.sleep(known.left + 2)
    assert versions.peers(pair.client) == []
    assert len(_mounted(pair, cable).probes()) == 1
    _check_known(pair)


@pytest.mark.full
def test_several_connections(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """The connections of one mount share the record that the first one made."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    exchange = _mounted(pair, cable, "4.2", "nconnect=4")
    assert len({one.queue for one in exchange.sent if one.by_client}) == 4
    assert len(exchange.probes()) == exchange.summary.refused == 1
    _check_known(pair)


@pytest.mark.full
def test_automatic(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """By default a server of version one gets not one byte of version two."""
    versions.forget(pair.client)
    tunables.set(rdma_version="auto")
    with cable.recording() as pcap:
        pair.mount()
        pair.client.sh(WORK)
        pair.umount()
    exchange = Exchange(pcap)
    assert exchange.summary.violations == []
    assert exchange.versions == {1}
    (request,) = capture.requests(pcap)
    # What the client says of itself stands where a server of version one does not look.
    assert request.private_data.startswith(versions.FIRST_FORMAT)
    assert request.private_data[8:].rstrip(b"\0") == versions.BOTH
    (answer,) = capture.accepted(pcap)
    assert versions.SECOND_FORMAT not in answer
    assert versions.peers(pair.client) == []
