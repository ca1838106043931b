# SPDX-License-Identifier: GPL-2.0
"""Mounts in version two between our client and our server, and what each says to stock peers.

The captures show the order of the first messages, the version of all others, and the sizes.
"""

from __future__ import annotations

import time

import pytest

from lab import capture, settings, versions
from lab.fixtures import Cable, Counters, ServerCounters, Tunables
from lab.hostile import counters as client_counters
from lab.pair import MOUNT_POINT, Pair
from lab.terms import CALL, RDMA_ERROR, REPLY
from lab.versions import Exchange

VERIFY = "python3 /lab/verify.py"
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
OURS = settings.client() == "ours" and settings.server() == "ours"
full = pytest.mark.full
#: Seconds after which no client expects an answer that depends on the version.
SLOW = 12


def _work(pair: Pair, suites: tuple[str, ...]) -> None:
    """Writes files by the mount and reads them back; the server compares every byte."""
    for suite in suites:
        pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/{suite}", timeout=200)
        pair.server.sh(f"{VERIFY} check {suite} /srv/export/{suite}", timeout=200)
        pair.client.sh(DROP_CACHES)
        pair.client.sh(f"{VERIFY} check {suite} {MOUNT_POINT}/{suite}", timeout=200)
        pair.client.sh(f"rm -r {MOUNT_POINT}/{suite}", timeout=60)


def _check_first(exchange: Exchange) -> None:
    """Checks the first call, its reply, and the announcements of both peers (section 5.1)."""
    first, second, *later = exchange.sent
    assert first.by_client
    assert first.message.version == 2
    assert first.message.direction == CALL
    assert first.message.operation is None
    assert first.message.size <= 1024
    assert not second.by_client, "a second message before the reply to the first one"
    assert second.message.xid == first.message.xid
    assert second.message.kind != RDMA_ERROR
    assert exchange.versions == {2}
    # Further operations change the sizes of a connection that is at work.
    announced = [one for one in later if one.message.operation]
    assert sorted(one.by_client for one in announced[:2]) == [False, True]
    operations = exchange.summary.operations
    assert operations["INIT_XCHAR"] == 2
    assert set(operations) <= {"INIT_XCHAR", "UPD_XCHAR", "REQ_XCHAR", "RESP_XCHAR"}
    for one in announced:
        assert one.message.direction == (CALL if one.by_client else REPLY)


@pytest.mark.server
@pytest.mark.needs_ours
@pytest.mark.needs_our_server
@pytest.mark.rxe_only
@pytest.mark.parametrize(
    ("nfs", "setting"), [("4.2", "auto"), pytest.param("3", "2", marks=full)], ids=["auto", "set"]
)
def test_mount(
    pair: Pair,
    tunables: Tunables,
    cable: Cable,
    counters: Counters,
    server_counters: ServerCounters,
    nfs: str,
    setting: str,
) -> None:
    """The first call is short and alone until its reply; all messages are of version two."""
    pair.server.sh("rm -rf /srv/export/*")
    versions.forget(pair.client)
    tunables.set(rdma_version=setting)
    before = server_counters()
    with cable.recording() as pcap:
        pair.mount(nfs)
        noticed = client_counters(pair.client)
        _work(pair, ("sizes", "names"))
        moved = {k: v - noticed[k] for k, v in client_counters(pair.client).items()}
        assert counters.connects() == 1
        pair.umount()
    exchange = Exchange(pcap)
    assert exchange.summary.violations == []
    _check_first(exchange)
    assert exchange.summary.version_two == exchange.summary.calls
    assert exchange.summary.calls > 300
    # INIT_XCHAR says that the client is ready for it, and not its private data.
    assert exchange.summary.invalidates > 0
    assert moved["session"] == 0
    assert server_counters()["session"] == before["session"]
    assert versions.peers(pair.client) == []


@full
@pytest.mark.both_roles
@pytest.mark.rxe_only
def test_private_data(pair: Pair, cable: Cable) -> None:
    """Both peers announce their versions; a stock peer ignores the announcement."""
    pair.server.sh("rm -rf /srv/export/*")
    with cable.recording() as pcap:
        pair.mount()
        _work(pair, ("sizes",))
        pair.umount()
    exchange = Exchange(pcap)
    assert exchange.summary.violations == []
    assert exchange.versions == {2 if OURS else 1}
    (request,) = capture.requests(pcap)
    (answer,) = capture.accepted(pcap)
    for data, whose in ((request.private_data, settings.client()), (answer, settings.server())):
        assert data.startswith(versions.FIRST_FORMAT)
        assert (versions.BOTH in data) == (whose == "ours")


@full
@pytest.mark.server
@pytest.mark.needs_ours
@pytest.mark.needs_our_server
@pytest.mark.rxe_only
def test_slow_first_answer(
    pair: Pair, tunables: Tunables, cable: Cable, counters: Counters
) -> None:
    """A server that has announced version two takes its time for the answer to the first call."""
    pair.server.sh("rm -rf /srv/export/*; echo slow > /srv/export/slow")
    versions.forget(pair.client)
    tunables.set(rdma_version="auto")
    pair.mount("3", options="nolock,actimeo=0")
    with cable.recording() as pcap:
        # nfsd asks mountd about each client that it does not know.
        pair.server.sh("pkill -STOP mountd")
        try:
            pair.restart_nfsd()
            reading = pair.client.vm.start(f"cat {MOUNT_POINT}/slow")
            time.sleep(SLOW)
        finally:
            pair.server.sh("pkill -CONT mountd")
        done = pair.client.vm.agent.wait(reading, 100)
        assert (done.status, done.stdout) == (0, b"slow\n"), done.stderr.decode()
        connects = counters.connects()
        pair.umount()
    assert versions.peers(pair.client) == []
    assert connects == 2
    assert Exchange(pcap).versions == {2}


@full
@pytest.mark.server
@pytest.mark.needs_ours
@pytest.mark.needs_our_server
@pytest.mark.rxe_only
def test_one_and_two(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """Each mount of the same server has the version that is set when it connects."""
    versions.forget(pair.client)
    for setting, version in (("2", 2), ("1", 1), ("auto", 2)):
        tunables.set(rdma_version=setting)
        with cable.recording() as pcap:
            pair.mount()
            pair.client.sh(f"echo {setting} > {MOUNT_POINT}/chosen")
            pair.umount()
        assert pair.server.read("/srv/export/chosen") == f"{setting}\n"
        exchange = Exchange(pcap)
        assert exchange.summary.violations == []
        assert exchange.versions == {version}, f"rdma_version={setting}"
    assert versions.peers(pair.client) == []


@full
@pytest.mark.server
@pytest.mark.needs_ours
@pytest.mark.needs_our_server
@pytest.mark.rxe_only
@pytest.mark.parametrize("setting", ["auto", "2"])
def test_server_changes(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, setting: str
) -> None:
    """A mount follows a server that is restarted without version two, and with it again."""
    versions.forget(pair.client)
    tunables.set(rdma_version=setting)
    pair.mount("3")
    for highest in (1, 2):
        pair.stop_nfsd()
        versions.limit(server_tunables, highest)
        if highest == 2:
            # The client was refused, and remembers that.
            versions.forget(pair.client)
        with cable.recording() as pcap:
            pair.start_nfsd()
            pair.client.sh(f"echo {highest} > {MOUNT_POINT}/highest; sync", timeout=100)
            pair.client.sh(f"{DROP_CACHES}; ls -l {MOUNT_POINT}/", timeout=100)
        assert pair.server.read("/srv/export/highest") == f"{highest}\n"
        exchange = Exchange(pcap)
        assert exchange.summary.violations == []
        probes = exchange.probes()
        if highest == 2:
            assert exchange.versions == {2}
        else:
            assert len(probes) == (0 if setting == "auto" else 1)
            assert len(exchange.calls) > len(probes)
    pair.umount()
    assert versions.peers(pair.client) == []
