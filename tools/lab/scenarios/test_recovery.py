# SPDX-License-Identifier: GPL-2.0
"""Losing the server or the link under load, and getting it back.

A writer keeps going throughout; afterwards every byte must be on the server,
and the client must have connected anew rather than hung.
"""

from __future__ import annotations

import time

import pytest

from lab import mountstats
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

WRITE = f"python3 /lab/verify.py write big {MOUNT_POINT}/r"
CHECK = "python3 /lab/verify.py check big /srv/export/r"
BLACKOUT = 40.0


def _connects(pair: Pair) -> int:
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.parse(text, MOUNT_POINT)["connect_count"]


def _finish(pair: Pair, writer: int, limit: float) -> None:
    """The writer must end well, and what it wrote be there on both sides."""
    done = pair.client.vm.agent.wait(writer, limit)
    assert done.status == 0, done.stderr.decode()
    pair.server.sh(CHECK, timeout=300)
    pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
    pair.client.sh(f"python3 /lab/verify.py check big {MOUNT_POINT}/r", timeout=300)


@pytest.mark.parametrize("version", ["3", "4.2"])
def test_nfsd_restart(pair: Pair, version: str) -> None:
    """The server stops for two seconds in the midst of 64 MiB of writes."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    writer = pair.client.vm.start(WRITE)
    time.sleep(3)
    pair.server.sh("rpc.nfsd 0; sleep 2; rpc.nfsd 8; echo 'rdma 20049' > /proc/fs/nfsd/portlist")
    _finish(pair, writer, 300)
    assert _connects(pair) >= 2
    pair.umount()


@pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
def test_blackout(pair: Pair) -> None:
    """The link carries no RDMA packet for 40 s, longer than any of its own retries."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    writer = pair.client.vm.start(WRITE)
    time.sleep(3)
    assert pair.relay is not None
    pair.relay.set("blackout", 1)
    time.sleep(BLACKOUT)
    assert pair.client.vm.agent.poll(writer) is None, "the writer finished before the blackout"
    pair.relay.set("blackout", 0)
    _finish(pair, writer, 400)
    assert _connects(pair) >= 2
    pair.umount()


@pytest.mark.full
@pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
@pytest.mark.parametrize("fault", ["loss", "duplicate", "reorder"])
def test_bad_link(pair: Pair, fault: str) -> None:
    """One packet in two hundred lost, doubled or late: slower, never wrong."""
    pair.server.sh("rm -rf /srv/export/*")
    assert pair.relay is not None
    pair.relay.set(fault, 0.005)
    pair.mount("4.2")
    pair.client.sh(f"python3 /lab/verify.py write sizes {MOUNT_POINT}/r", timeout=600)
    pair.server.sh("python3 /lab/verify.py check sizes /srv/export/r", timeout=300)
    pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
    pair.client.sh(f"python3 /lab/verify.py check sizes {MOUNT_POINT}/r", timeout=600)
    pair.relay.set(fault, 0)
    pair.umount()
