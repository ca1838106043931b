# SPDX-License-Identifier: GPL-2.0
"""Servers that answer a client's attempt at version two in ways that no draft allows.

guest/misversions.py is in the server's place. It answers honestly in version one, and where the
way says so in version two. Whatever it does, the mount must come up, or fail without a storm of
connections.
"""

from __future__ import annotations

import time

import pytest

from lab import versions
from lab.errors import GuestError
from lab.fixtures import BREACHES, Cable, Counters, Tunables
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Pair
from lab.versions import Exchange

# Captures of siw are not read.
pytestmark = [pytest.mark.needs_ours, pytest.mark.breaks_rules]
full = pytest.mark.full

#: Seconds of a mount: those of the client's patience with the first message, and of a connection.
LIMIT = 20
#: How often the client connects, and the messages of version two that it sends, for each way.
WAYS = [
    pytest.param("drops", 2, 1, marks=full),
    pytest.param("disconnects", 2, 1, marks=full),
    pytest.param("refuses-and-leaves", 2, 1, marks=full),
    pytest.param("bad-header", 1, 2, marks=full),
    pytest.param("pins-two", 2, 2, marks=full),
    pytest.param("err-chunk", 1, 1, marks=full),
    ("later-draft", 1, 1),
    pytest.param("later-error", 1, 1, marks=full),
]


def _check_known(pair: Pair) -> None:
    """Checks that the client knows the server as one of version one."""
    (known,) = versions.peers(pair.client)
    assert (known.address, known.port, known.verdict) == (SERVER_ADDRESS, 20049, "version-1")


def _check_honest(pair: Pair, cable: Cable, name: str) -> None:
    """Works with the real server, which has the port again; the client knows it already."""
    with cable.recording() as pcap:
        pair.client.sh(f"head -c 100000 /dev/urandom > {MOUNT_POINT}/{name}", timeout=100)
        pair.client.sh(f"sync; echo 3 > /proc/sys/vm/drop_caches; ls {MOUNT_POINT}/", timeout=100)
        here = pair.client.sh(f"sha256sum < {MOUNT_POINT}/{name}", timeout=100)
    assert here == pair.server.sh(f"sha256sum < /srv/export/{name}")
    # The client may be connected already when the recording begins.
    exchange = Exchange(pcap, whole=False)
    assert exchange.summary.violations == []
    assert exchange.versions == {1}


@pytest.mark.rxe_only
@pytest.mark.parametrize(("way", "connections", "attempts"), WAYS)
def test_first_answer(
    pair: Pair, tunables: Tunables, cable: Cable, way: str, connections: int, attempts: int
) -> None:
    """After any answer to its first message the client uses version one, and remembers that."""
    pair.server.sh("rm -rf /srv/export/*")
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    with versions.hostile_server(pair, way) as seen:
        began = time.monotonic()
        pair.mount("3", options="nolock")
        took = time.monotonic() - began
        pair.client.sh(f"echo {way} > {MOUNT_POINT}/way && sync {MOUNT_POINT}/way")
        _check_known(pair)
    print(f"mounted in {took:.1f} s")
    assert pair.server.read("/srv/export/way") == f"{way}\n"
    _check_honest(pair, cable, "after")
    pair.umount()
    _check_known(pair)
    assert (seen["connections"], seen["two"]) == (connections, attempts)
    assert seen["one"] > 5
    assert seen["operations"] == []
    assert took < LIMIT


@pytest.mark.rxe_only
@full
@pytest.mark.parametrize("way", ["err-chunk-always", "versions-3-5-always"])
def test_no_answer(pair: Pair, tunables: Tunables, cable: Cable, way: str) -> None:
    """A mount fails in time where a server refuses each call in each version."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    with versions.hostile_server(pair, way) as seen:
        began = time.monotonic()
        with pytest.raises(GuestError):
            pair.mount("3", options="nolock,retry=0")
        took = time.monotonic() - began
    print(f"failed after {took:.1f} s")
    _check_known(pair)
    assert took < LIMIT
    assert seen["connections"] <= 3
    assert seen["two"] <= 2
    pair.mount("3", options="nolock")
    _check_honest(pair, cable, "after")
    pair.umount()


@pytest.mark.rxe_only
@full
def test_no_version(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """Without a version in common a mount fails at once; the next one tries version one."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    with versions.hostile_server(pair, "versions-3-5") as seen:
        with pytest.raises(GuestError):
            pair.mount("3", options="nolock,retry=0")
        _check_known(pair)
        pair.mount("3", options="nolock")
        pair.client.sh(f"echo three > {MOUNT_POINT}/way && sync {MOUNT_POINT}/way")
    _check_honest(pair, cable, "after")
    pair.umount()
    assert pair.server.read("/srv/export/way") == "three\n"
    assert (seen["connections"], seen["two"]) == (2, 1)


def _await_word(pair: Pair, word: str) -> None:
    """Waits until the server has printed a word."""
    deadline = time.monotonic() + 60
    while word not in pair.server.read("/run/hostile.log").splitlines():
        assert time.monotonic() < deadline, f"no {word}"
        time.sleep(0.1)


@full
def test_removal(pair: Pair, tunables: Tunables) -> None:
    """The removal of a device before the first answer says nothing about the server."""
    kind = pair.setup.link
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    with versions.hostile_server(pair, "drops") as seen:
        pair.client.sh(f"mkdir -p {MOUNT_POINT}")
        options = "vers=3,proto=rdma,port=20049,nolock"
        mounting = pair.client.vm.start(f"mount -t nfs -o {options} server:/export {MOUNT_POINT}")
        _await_word(pair, "tried")
        # One command: RPCs of a mount wait eight seconds for the device, and no longer.
        again = f"cat {versions.PEERS} && rdma link add {kind}0 type {kind} netdev eth0"
        known = pair.client.sh(f"rdma link del {kind}0 && {again}", timeout=120)
        assert known == ""
        done = pair.client.vm.agent.wait(mounting, 100)
        assert done.status == 0, done.stderr.decode()
        _check_known(pair)
    assert seen["two"] == 2
    pair.umount()


def _breaches(pair: Pair) -> int:
    """Returns how often servers have broken the rules of version two."""
    lines = pair.client.read(BREACHES).splitlines()
    return int(dict(line.split() for line in lines)["session"])


@full
def test_no_options(pair: Pair, tunables: Tunables) -> None:
    """A mount works if the server supports no optional operation; none is sent to it again."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    with versions.hostile_server(pair, "no-options") as seen:
        pair.mount("3", options="nolock")
        before = _breaches(pair)
        pair.client.sh(f"for i in $(seq 20); do echo $i > {MOUNT_POINT}/o$i; done; sync")
        # A change that the server would be told.
        tunables.set_thresholds(8192)
        pair.client.sh(f"for i in $(seq 20); do rm {MOUNT_POINT}/o$i; done; sleep 2")
        pair.client.sh(f"echo well > {MOUNT_POINT}/options; sync")
        assert _breaches(pair) == before
    assert pair.server.read("/srv/export/options") == "well\n"
    assert (seen["connections"], seen["one"], seen["errors"]) == (1, 0, [])
    assert seen["operations"] == ["INIT"]
    pair.umount()


#: Writes of 6 KiB: inline where the server takes messages of 8 KiB, else in a chunk, which this
#: server does not take.
WRITES = f"dd if=/dev/urandom of={MOUNT_POINT}/six bs=6k count=5 oflag=direct"


@full
def test_odd_init(pair: Pair, tunables: Tunables, counters: Counters) -> None:
    """The client skips characteristics that it does not know, and takes the others."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    tunables.set_thresholds(16384)
    with versions.hostile_server(pair, "odd-init") as seen:
        pair.mount("3", options="nolock")
        before, stats = _breaches(pair), counters()
        pair.client.sh(WRITES)
        assert counters()["read_chunks"] == stats["read_chunks"]
        assert _breaches(pair) == before
    here = pair.client.sh(f"sha256sum < {MOUNT_POINT}/six", timeout=100)
    assert here == pair.server.sh("sha256sum < /srv/export/six")
    assert seen["connections"] == 1
    assert seen["errors"] == []
    assert seen["notes"] == ["INIT 1"]
    pair.umount()


@full
def test_bad_init(pair: Pair, tunables: Tunables) -> None:
    """The client refuses truncated and impossible values, and the mount continues."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    with versions.hostile_server(pair, "bad-init") as seen:
        before = _breaches(pair)
        pair.mount("3", options="nolock")
        pair.client.sh(f"for i in $(seq 20); do echo $i > {MOUNT_POINT}/b; done; sync")
        pair.client.sh(f"echo well > {MOUNT_POINT}/bad; sync")
        noticed = _breaches(pair) - before
    assert pair.server.read("/srv/export/bad") == "well\n"
    assert (seen["connections"], seen["one"]) == (1, 0)
    assert seen["notes"][-1] == "INIT 8"
    # All but the last are no XDR of what they should be; the last is a value that cannot be.
    assert seen["errors"] == [2] * 7
    assert noticed == 8
    pair.umount()


@full
def test_torn(pair: Pair, tunables: Tunables) -> None:
    """The client drops messages whose header and RPC message disagree about call and reply."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    with versions.hostile_server(pair, "torn") as seen:
        before = _breaches(pair)
        pair.mount("3", options="nolock")
        pair.client.sh(f"for i in $(seq 20); do echo $i > {MOUNT_POINT}/torn; done; sync")
        noticed = _breaches(pair) - before
    assert pair.server.read("/srv/export/torn") == "20\n"
    assert (seen["connections"], seen["one"]) == (1, 0)
    assert noticed >= 40
    pair.umount()


#: Calls at a time, each about a file of its own, until /run/enough exists.
LOAD = f"""
import os, threading
def ask(number):
    file = os.open(f"{MOUNT_POINT}/grant{{number}}", os.O_RDWR | os.O_CREAT)
    while not os.path.exists("/run/enough"):
        os.fstat(file)
threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
#: The calls that are unanswered after each of the server's steps (class Grants of the peer).
GRANTED = [4, 4, 6, 5, 5, 1, 1, 1, 1, 1, 1, 3, 2, 1, 8]


@full
def test_grants(pair: Pair, tunables: Tunables) -> None:
    """Operations change the grant, and free no credit of a call that is unanswered."""
    versions.forget(pair.client)
    tunables.set(rdma_version=2)
    pair.client.sh("rm -f /run/enough")
    with versions.hostile_server(pair, "grants") as seen:
        pair.mount("3", options="nolock,actimeo=0")
        load = pair.client.vm.start(f"python3 -c '{LOAD}'")
        time.sleep(3)
        pair.server.sh("touch /run/misversions.go")
        _await_word(pair, "granted")
        pair.client.sh("touch /run/enough")
        pair.client.vm.agent.wait(load, 100)
    assert (seen["connections"], seen["one"]) == (1, 0)
    first, *later = seen["notes"]
    assert first >= max(GRANTED)
    assert later[: len(GRANTED)] == GRANTED
    pair.umount()
