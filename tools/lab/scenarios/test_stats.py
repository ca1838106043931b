# SPDX-License-Identifier: GPL-2.0
"""The counters of /proc/self/mountstats agree with the work and with the packets."""

from __future__ import annotations

import pytest

from lab import capture, wirecheck
from lab.fixtures import Cable, Counters, Tunables
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, Pair

FILES = 20


def test_transport_line(pair: Pair, counters: Counters) -> None:
    """The line has all 27 values, and direct READs and WRITEs move them by the right amounts."""
    pair.mount("4.2", options="rsize=65536,wsize=65536")
    before = counters()
    assert before["connect_count"] == 1
    assert before["port"] == before["bind_count"] == before["recycled"] == before["orphaned"] == 0
    pair.client.sh(
        f"for i in $(seq {FILES}); do"
        f" dd if=/dev/zero of={MOUNT_POINT}/f$i bs=64k count=1 oflag=direct 2>/dev/null; done"
    )
    wrote = counters()
    assert wrote["read_chunks"] - before["read_chunks"] == FILES
    pair.client.sh(
        f"for i in $(seq {FILES}); do"
        f" dd if={MOUNT_POINT}/f$i of=/dev/null bs=64k count=1 iflag=direct 2>/dev/null; done"
    )
    read = counters()
    assert read["write_chunks"] - wrote["write_chunks"] == FILES
    # The request bytes are the memory that calls offer for replies.
    assert read["rdma_request_bytes"] - wrote["rdma_request_bytes"] >= FILES * 65536
    assert read["rdma_reply_bytes"] - wrote["rdma_reply_bytes"] >= FILES * 65536
    for name in ("bad_xids", "failed_marshal", "bad_reply"):
        assert read[name] == 0, name
    assert read["recvs"] <= read["sends"]
    assert read["recvs"] >= before["recvs"] + 2 * FILES
    assert read["allocated"] > 0
    pair.umount()


def _as_captured(summary: wirecheck.Summary) -> dict[str, int]:
    """Returns the values that the counters must have after these packets."""
    segments = summary.read_segments + summary.write_segments + summary.reply_segments
    return {
        "connect_count": 1,
        "sends": summary.calls,
        "recvs": summary.replies,
        "read_chunks": summary.read_segments,
        "write_chunks": summary.write_segments,
        "reply_chunks": summary.reply_segments,
        "rdma_request_bytes": summary.offered,
        "rdma_reply_bytes": summary.used,
        "pullup": summary.inline,
        "nomsg": summary.position_zero,
        # The client invalidates each region that the server does not.
        "local_inv": segments - summary.invalidates,
        **dict.fromkeys(("bad_xids", "failed_marshal", "bad_reply", "recycled", "orphaned"), 0),
    }


# The check reads RoCE captures.
@pytest.mark.rxe_only
@pytest.mark.needs_ours
@pytest.mark.parametrize("threshold", [4096, pytest.param(1024, marks=pytest.mark.full)])
def test_line_agrees_with_the_capture(
    pair: Pair, cable: Cable, tunables: Tunables, counters: Counters, threshold: int
) -> None:
    """The transport counts every kind of chunk as the packets have it."""
    pair.server.sh("rm -rf /srv/export/*")
    tunables.set_thresholds(threshold)
    with cable.recording() as pcap:
        # Version 3 sends no call without a reason.
        pair.mount("3", options="nolock")
        for suite in ("sizes", "names"):
            pair.client.sh(f"python3 /lab/verify.py write {suite} {MOUNT_POINT}/{suite}")
            pair.client.sh("sync; echo 3 > /proc/sys/vm/drop_caches")
            pair.client.sh(f"python3 /lab/verify.py check {suite} {MOUNT_POINT}/{suite}")
        at = f"{MOUNT_POINT}/small"
        pair.client.sh(f"touch {at}; python3 /lab/long_acl.py set {at} 3")
        stats = counters()
        pair.umount()
    summary = wirecheck.check(capture.read(pcap), CLIENT_ADDRESS)
    wanted = _as_captured(summary)
    print(wanted)
    assert {name: stats[name] for name in wanted} == wanted
    assert summary.violations == []
    assert summary.position_zero > 0
    assert summary.read_chunks > summary.position_zero
    assert summary.write_chunks > 0
    assert summary.reply_chunks > 0


def test_copied_replies(pair: Pair, counters: Counters) -> None:
    """The counter fixup has the bytes of inline data that the client copied to its pages."""
    sizes = (4, 512, 1000, 2048)
    for size in sizes:
        pair.server.sh(f"head -c {size} /dev/zero > /srv/export/i{size}")
    pair.mount("3", options="nolock")
    for size in sizes:
        at = f"{MOUNT_POINT}/i{size}"
        pair.client.sh(f"stat {at}")
        before = counters()
        pair.client.sh(f"dd if={at} of=/dev/null bs={size} count=1 iflag=direct 2>/dev/null")
        after = counters()
        assert after["fixup"] - before["fixup"] == size
        assert after["write_chunks"] == before["write_chunks"]
    pair.umount()


def test_errors_of_nfs(pair: Pair, counters: Counters) -> None:
    """Errors of NFS do not count as errors of the transport."""
    pair.mount()
    pair.client.sh(f"for i in 1 2 3; do ! cat {MOUNT_POINT}/absent$i 2>/dev/null; done")
    stats = counters()
    assert stats["bad_reply"] == stats["failed_marshal"] == 0
    pair.umount()
