# SPDX-License-Identifier: GPL-2.0
"""The file `connections` of debugfs shows the connections of both roles as they are."""

from __future__ import annotations

import time

import pytest

from lab import connections
from lab.fixtures import Counters
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, SERVER_ADDRESS, Guest, Pair

pytestmark = pytest.mark.needs_ours


def _eventually(guest: Guest, count: int) -> list[dict[str, str]]:
    """Returns the lines when there are `count` of them."""
    deadline = time.monotonic() + 20
    while len(connections.read(guest)) != count and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(connections.read(guest)) == count
    return connections.read(guest)


def test_line_of_a_client(pair: Pair, counters: Counters) -> None:
    """A mount has a line whose numbers fit each other, until it is unmounted."""
    _eventually(pair.client, 0)
    pair.mount("4.2")
    pair.client.sh(f"ls {MOUNT_POINT}")
    (line,) = connections.read(pair.client)
    assert (line["role"], line["state"]) == ("client", "up")
    assert line["peer"] == f"{SERVER_ADDRESS}:20049"
    assert line["device"] == f"{pair.setup.link}0"
    assert (line["port"], line["connects"], line["lost"]) == ("1", "1", "none")
    assert line["call_bytes"] == line["reply_bytes"] == "4096"
    regions = [int(line[f"regions_{state}"]) for state in ("idle", "used", "unusable")]
    assert sum(regions) == int(line["regions"]) == counters()["allocated"]
    assert 0 < int(line["credits"]) <= int(line["credit_limit"]) == 128
    assert int(line["receives_posted"]) <= int(line["receives"])
    for field in ("in_use", "silent", "probes", "breaches"):
        assert line[field] == "0", field
    pair.umount()
    _eventually(pair.client, 0)


def test_calls_under_way_are_counted(pair: Pair) -> None:
    """While many WRITEs are under way, a line shows calls with read chunks and their regions."""
    pair.mount("4.2")
    copy = f"dd if=/dev/zero of={MOUNT_POINT}/f$i bs=1M count=40 oflag=direct 2>/dev/null"
    look = f"for n in $(seq 40); do cat {connections.FILE}; done"
    text = pair.client.sh(f"for i in 1 2 3 4; do {copy} & done; sleep 0.2; {look}; wait")
    lines = connections.parse(text)
    busy = [line for line in lines if int(line["read"])]
    assert busy, "no look has found a WRITE under way"
    assert all(int(line["regions_used"]) > 0 for line in busy)
    assert all(int(line["in_use"]) <= int(line["credits"]) for line in lines)
    pair.umount()


def test_failed_attempts_and_the_last_loss(pair: Pair) -> None:
    """When the server's listener has gone, the line says why, and counts the attempts."""
    pair.mount("4.2")
    threads = pair.server.read("/proc/fs/nfsd/threads").strip()
    pair.server.sh("rpc.nfsd 0")
    try:
        pair.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and connections.read(pair.client)[0]["failures"] == "0":
            time.sleep(0.5)
        (line,) = connections.read(pair.client)
        assert (line["state"], line["lost"]) == ("down", "peer")
        assert int(line["failures"]) > 0
        # ECONNREFUSED
        assert line["error"] == "-111"
        assert "device" not in line
    finally:
        pair.server.sh(f"rpc.nfsd {threads} && echo 'rdma 20049' > /proc/fs/nfsd/portlist")
    pair.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    (line,) = connections.read(pair.client)
    assert (line["state"], line["connects"], line["failures"]) == ("up", "2", "0")
    pair.umount()


@pytest.mark.needs_our_server
@pytest.mark.server
def test_line_of_a_server(pair: Pair) -> None:
    """The server has a line for each connection, which ends with it."""
    pair.mount("4.2")
    pair.client.sh(f"ls {MOUNT_POINT}")
    (line,) = connections.read(pair.server)
    assert (line["role"], line["state"]) == ("server", "up")
    assert line["peer"].startswith(f"{CLIENT_ADDRESS}:")
    assert line["device"] == f"{pair.setup.link}0"
    (ours,) = connections.read(pair.client)
    for field in ("version", "call_bytes", "reply_bytes", "invalidation", "backward", "credits"):
        assert line[field] == ours[field], field
    pair.umount()
    _eventually(pair.server, 0)


DEEP = (
    f"fio --name=d --filename={MOUNT_POINT}/deep --size=4m --direct=1 --ioengine=libaio"
    " --rw=randread --bs=4k --iodepth=64 --io_size=8m"
)


@pytest.mark.needs_our_server
@pytest.mark.server
def test_grant_follows_use(pair: Pair) -> None:
    """A client that keeps 64 calls in flight is granted as many, and one at a time is not."""
    pair.server.sh("head -c 4M /dev/zero > /srv/export/deep; chmod 666 /srv/export/deep")
    pair.mount("4.2")
    pair.client.sh(f"for n in $(seq 100); do stat -f {MOUNT_POINT} > /dev/null; done", timeout=120)
    (line,) = connections.read(pair.server)
    assert line["credits"] == "16"
    pair.client.sh(DEEP, timeout=200)
    (line,) = connections.read(pair.server)
    assert int(line["credits"]) >= 64
    pair.umount()


@pytest.mark.full
def test_readers_disturb_nothing(pair: Pair) -> None:
    """Connections are made and closed while three readers never stop."""
    pair.mount("4.2")
    reader = f"while [ -e /tmp/read ]; do cat {connections.FILE}; done > /dev/null"
    readers = f"for n in 1 2 3; do {reader} & done"
    pair.client.sh(f"touch /tmp/read; ({readers}) > /dev/null 2>&1")
    try:
        for _ in range(5):
            pair.umount()
            pair.mount("4.2")
            pair.client.sh(f"ls {MOUNT_POINT}")
    finally:
        pair.client.sh("rm -f /tmp/read")
    pair.umount()
