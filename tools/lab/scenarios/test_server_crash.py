# SPDX-License-Identifier: GPL-2.0
"""The server crashes: what a client's fsync has made stable is on the disk, and work goes on.

The server is reset amid the writes, and its disk loses what it had not been told to keep
(lab/disk.py). Two mounts write records (guest/records.py); each notes on the client, which does not
crash, what must have survived.
"""

from __future__ import annotations

import time

import pytest

from lab import settings
from lab.fixtures import Counters
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair
from lab.records import Records

pytestmark = [pytest.mark.server, pytest.mark.breaks_rules]

DISK = pytest.mark.parametrize("pair", [Options(disk=True)], indirect=True)
#: Mount point by version; a mount over TCP of the same export works beside those over RDMA.
MOUNTS = {"4.2": MOUNT_POINT, "3": "/mnt/three"}
TCP = "/mnt/tcp"
#: Holds a lock until somebody makes a file; and tells whether the server's file has a lock.
HOLD = f"""
import fcntl, os, time
file = open("{MOUNT_POINT}/locked", "w")
fcntl.lockf(file, fcntl.LOCK_EX)
open("/run/locked", "w")
while not os.path.exists("/run/unlock"):
    time.sleep(0.2)
"""
LOCKED = """
import fcntl
try:
    fcntl.lockf(open("/srv/export/locked", "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
except BlockingIOError:
    print("locked")
"""
#: Seconds of work before a crash, and those in which a mount must be at work again.
WORK, SOON = 1.0, 120.0


def _mount(pair: Pair, *, tcp: bool) -> list[Records]:
    """Mounts, and starts the writers on each mount."""
    pair.server.sh("rm -rf /srv/export/*")
    for version, at in MOUNTS.items():
        pair.mount(version, options="nosharecache", at=at)
    found = [Records(pair, f"v{version}", at) for version, at in MOUNTS.items()]
    if tcp:
        pair.client.sh(
            f"mkdir -p {TCP}; mount -o vers=3,proto=tcp,nosharecache server:/export {TCP}"
        )
        found.append(Records(pair, "tcp", TCP))
    pair.client.write("/run/hold.py", HOLD.encode())
    pair.client.sh("rm -f /run/locked /run/unlock")
    pair.client.vm.start("exec python3 /run/hold.py")
    pair.client.sh("until [ -e /run/locked ]; do sleep 0.1; done")
    return found


def _crash(pair: Pair, records: list[Records], seed: int) -> None:
    """Crashes the server amid the work; what was stable must be there before nfsd starts."""
    assert pair.disk is not None
    for one in records:
        one.await_stable(10, SOON)
    time.sleep(WORK)
    pair.crash_server(seed)
    tally = pair.disk.tally()
    counts = [one.check_server() for one in records]
    pair.start_server()
    took = max(one.await_stable(5, SOON * pair.patience) for one in records)
    # The client has claimed its lock again in the server's grace period.
    assert pair.server.sh("python3 -", stdin=LOCKED.encode()).strip() == "locked"
    stable, doubtful = map(sum, zip(*counts, strict=True))
    print(
        f"crash {seed}: {tally['lost']} of {tally['unflushed']} unflushed blocks lost so far; "
        f"{stable} stable records, {doubtful} of them being written; at work again {took:.1f} s "
        "after nfsd's start"
    )


@DISK
@pytest.mark.timeout(3600)
@pytest.mark.full
@pytest.mark.parametrize("rounds", [1, 20])
def test_fsync_survives(pair: Pair, counters: Counters, rounds: int) -> None:
    """Records that were stable at the client are on the disk after each crash; a lock is held."""
    records = _mount(pair, tcp=rounds > 2)
    for seed in range(rounds):
        _crash(pair, records, seed)
    pair.client.sh("touch /run/unlock")
    for one in records:
        one.finish()
    assert pair.disk is not None
    tally = pair.disk.tally()
    print(dict(tally))
    # Without a loss the disk would have shown nothing.
    assert tally["lost"] > 0
    assert tally["flush"] > 0
    if settings.client() == "ours":
        assert counters.connects() > rounds
    for at in [*MOUNTS.values(), *([TCP] if rounds > 2 else [])]:
        pair.umount(at)
