# SPDX-License-Identifier: GPL-2.0
"""The counters of /proc/self/mountstats tell what really happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import capture, mountstats, settings, wirecheck
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, Pair

FILES = 20


def _stats(pair: Pair) -> dict[str, int]:
    return mountstats.parse(pair.client.read("/proc/self/mountstats"), MOUNT_POINT)


def test_transport_line(pair: Pair) -> None:
    """All 27 values are there, and move by what the files below make necessary."""
    pair.mount("4.2", options="rsize=65536,wsize=65536")
    before = _stats(pair)
    assert before["connect_count"] == 1
    assert before["port"] == before["bind_count"] == before["recycled"] == before["orphaned"] == 0
    pair.client.sh(
        f"for i in $(seq {FILES}); do"
        f" dd if=/dev/zero of={MOUNT_POINT}/f$i bs=64k count=1 oflag=direct 2>/dev/null; done"
    )
    wrote = _stats(pair)
    assert wrote["read_chunks"] - before["read_chunks"] == FILES
    pair.client.sh(
        f"for i in $(seq {FILES}); do"
        f" dd if={MOUNT_POINT}/f$i of=/dev/null bs=64k count=1 iflag=direct 2>/dev/null; done"
    )
    read = _stats(pair)
    assert read["write_chunks"] - wrote["write_chunks"] == FILES
    # What is called request bytes counts the memory offered for replies.
    assert read["rdma_request_bytes"] - wrote["rdma_request_bytes"] >= FILES * 65536
    assert read["rdma_reply_bytes"] - wrote["rdma_reply_bytes"] >= FILES * 65536
    for name in ("bad_xids", "failed_marshal", "bad_reply"):
        assert read[name] == 0, name
    assert read["recvs"] <= read["sends"]
    assert read["recvs"] >= before["recvs"] + 2 * FILES
    assert read["allocated"] > 0
    pair.umount()


def _as_captured(summary: wirecheck.Summary) -> dict[str, int]:
    """What the counters must say of these packets."""
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
        # Each region is invalidated, by the one side or the other.
        "local_inv": segments - summary.invalidates,
        **dict.fromkeys(("bad_xids", "failed_marshal", "bad_reply", "recycled", "orphaned"), 0),
    }


@pytest.mark.skipif(settings.link() != "rxe", reason="reads RoCE captures")
@pytest.mark.needs_ours
@pytest.mark.parametrize("threshold", [4096, 1024])
def test_line_tells_what_was_captured(pair: Pair, threshold: int, tmp_path: Path) -> None:
    """Every kind of chunk; counted from the packets, and by the transport."""
    knobs = "/proc/sys/sunrpc/rdma_max_inline_read /proc/sys/sunrpc/rdma_max_inline_write"
    saved = pair.client.sh(f"cat {knobs}").split()[0]
    pair.server.sh("rm -rf /srv/export/*")
    pair.end_capture()
    pcap = tmp_path / "all.pcap"
    pair.capture(pcap)
    pair.client.sh(f"echo {threshold} | tee {knobs}")
    try:
        # Version 3 is quiet when nothing is to be done.
        pair.mount("3", options="nolock")
        for suite in ("sizes", "names"):
            pair.client.sh(f"python3 /lab/verify.py write {suite} {MOUNT_POINT}/{suite}")
            pair.client.sh("sync; echo 3 > /proc/sys/vm/drop_caches")
            pair.client.sh(f"python3 /lab/verify.py check {suite} {MOUNT_POINT}/{suite}")
        stats = _stats(pair)
        pair.umount()
    finally:
        pair.client.sh(f"echo {saved} | tee {knobs}")
    pair.end_capture()
    summary = wirecheck.check(capture.read(pcap), CLIENT_ADDRESS)
    pair.capture(tmp_path / "rest.pcap")
    wanted = _as_captured(summary)
    print(wanted)
    assert {name: stats[name] for name in wanted} == wanted
    assert summary.violations == []
    assert summary.read_chunks > 0
    assert summary.write_chunks > 0
    assert summary.reply_chunks > 0


def test_copied_replies(pair: Pair) -> None:
    """Data that comes inline goes to its pages byte by byte, and is counted so."""
    sizes = (4, 512, 1000, 2048)
    for size in sizes:
        pair.server.sh(f"head -c {size} /dev/zero > /srv/export/i{size}")
    pair.mount("3", options="nolock")
    for size in sizes:
        at = f"{MOUNT_POINT}/i{size}"
        pair.client.sh(f"stat {at}")
        before = _stats(pair)
        pair.client.sh(f"dd if={at} of=/dev/null bs={size} count=1 iflag=direct 2>/dev/null")
        after = _stats(pair)
        assert after["fixup"] - before["fixup"] == size
        assert after["write_chunks"] == before["write_chunks"]
    pair.umount()


def test_bad_names_count_nothing_wrong(pair: Pair) -> None:
    """Errors of NFS are not errors of the transport."""
    pair.mount()
    pair.client.sh(f"for i in 1 2 3; do ! cat {MOUNT_POINT}/absent$i 2>/dev/null; done")
    stats = _stats(pair)
    assert stats["bad_reply"] == stats["failed_marshal"] == 0
    pair.umount()
