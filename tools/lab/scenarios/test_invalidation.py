# SPDX-License-Identifier: GPL-2.0
"""The responder invalidates the client's memory regions where it offers to."""

from __future__ import annotations

import pytest

from lab import capture, wirecheck
from lab.fixtures import Cable, Counters
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, Pair

READS = 16


# The check reads RoCE captures.
@pytest.mark.rxe_only
def test_remote_invalidation(pair: Pair, cable: Cable, counters: Counters) -> None:
    """A reply to a READ with one chunk invalidates its R_key, and the client posts no LOCAL_INV."""
    with cable.recording() as pcap:
        pair.mount("4.2")
        pair.client.sh(f"dd if=/dev/zero of={MOUNT_POINT}/f bs=64k count={READS} conv=fsync")
        pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
        before = counters()["local_inv"]
        pair.client.sh(f"dd if={MOUNT_POINT}/f of=/dev/null bs=64k iflag=direct")
        local = counters()["local_inv"] - before
        pair.umount()
    summary = wirecheck.check(capture.read(pcap), CLIENT_ADDRESS)
    assert summary.violations == []
    assert summary.calls == summary.replies
    assert summary.write_chunks >= READS
    assert summary.read_chunks > 0
    assert summary.invalidates >= READS
    assert local == 0, f"{local} local invalidations beside {summary.invalidates} remote ones"
