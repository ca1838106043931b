# SPDX-License-Identifier: GPL-2.0
"""The counters of /proc/self/mountstats tell what really happened."""

from __future__ import annotations

from lab import mountstats
from lab.pair import MOUNT_POINT, Pair

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


def test_bad_names_count_nothing_wrong(pair: Pair) -> None:
    """Errors of NFS are not errors of the transport."""
    pair.mount()
    pair.client.sh(f"for i in 1 2 3; do ! cat {MOUNT_POINT}/absent$i 2>/dev/null; done")
    stats = _stats(pair)
    assert stats["bad_reply"] == stats["failed_marshal"] == 0
    pair.umount()
