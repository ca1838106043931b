# SPDX-License-Identifier: GPL-2.0
"""Memory regions are invalidated by the responder where it offers to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import capture, mountstats, settings, wirecheck
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, Pair

READS = 16


def _local_invalidations(pair: Pair) -> int:
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.parse(text, MOUNT_POINT)["local_inv"]


@pytest.mark.skipif(settings.link() != "rxe", reason="reads RoCE captures")
def test_remote_invalidation(pair: Pair, tmp_path: Path) -> None:
    """Replies to single-chunk READs invalidate their R_key, and no local one is posted."""
    pair.end_capture()
    pcap = tmp_path / "reads.pcap"
    pair.capture(pcap)
    pair.mount("4.2")
    pair.client.sh(f"dd if=/dev/zero of={MOUNT_POINT}/f bs=64k count={READS} conv=fsync")
    pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
    before = _local_invalidations(pair)
    pair.client.sh(f"dd if={MOUNT_POINT}/f of=/dev/null bs=64k iflag=direct")
    local = _local_invalidations(pair) - before
    pair.umount()
    summary = wirecheck.check(capture.read(pcap), CLIENT_ADDRESS)
    assert summary.violations == []
    assert summary.calls == summary.replies
    assert summary.write_chunks >= READS
    assert summary.read_chunks > 0
    assert summary.invalidates >= READS
    assert local == 0, f"{local} local invalidations beside {summary.invalidates} remote ones"
