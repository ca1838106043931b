# SPDX-License-Identifier: GPL-2.0
"""The responder invalidates the client's memory regions where it offers to."""

from __future__ import annotations

import pytest

from lab import capture, wirecheck
from lab.fixtures import Cable, Counters
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, Pair

CALLS = 16


# The check reads RoCE captures.
@pytest.mark.both_roles
@pytest.mark.rxe_only
def test_remote_invalidation(pair: Pair, cable: Cable, counters: Counters) -> None:
    """The reply to a READ or WRITE invalidates its R_key, and the client posts no LOCAL_INV."""
    with cable.recording() as pcap:
        pair.mount("4.2")
        before = counters()["local_inv"]
        file = f"{MOUNT_POINT}/f"
        pair.client.sh(f"dd if=/dev/zero of={file} bs=64k count={CALLS} oflag=direct")
        pair.client.sh(f"dd if={file} of=/dev/null bs=64k iflag=direct")
        local = counters()["local_inv"] - before
        pair.umount()
    summary = wirecheck.check(capture.read(pcap), CLIENT_ADDRESS)
    assert summary.violations == []
    assert summary.calls == summary.replies
    assert summary.write_chunks >= CALLS
    assert summary.read_chunks >= CALLS
    assert summary.invalidates >= 2 * CALLS
    assert local == 0, f"{local} local invalidations beside {summary.invalidates} remote ones"
