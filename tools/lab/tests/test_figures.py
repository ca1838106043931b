# SPDX-License-Identifier: GPL-2.0
"""Figures and stories: counters by address, tables of ratios, the trace of one RPC."""

from __future__ import annotations

import struct
from pathlib import Path

from lab import bench, demo, instructions, mountstats

TRACE = """\
# tracer: nop
 dd-1 [000] ..... 5.1: xprtrdma_marshal: task:00000007@00000003 xid=0x1: inline/inline
 dd-2 [000] ..... 5.2: xprtrdma_marshal: task:00000009@00000003 xid=0x2: inline/write chunk
 dd-2 [000] ..... 5.2: xprtrdma_chunk_write: task:00000009@00000003 65536@0xabc:00000001 (last)
 dd-2 [000] ..... 5.2: xprtrdma_post_send: task:00000009@00000003 cq.id=4 cid=2 (1 SGE)
 kw-3 [000] ..... 5.3: xprtrdma_reply: task:00000009@00000003 xid=0x2 credits=64
"""

MOUNTSTATS = """\
device server:/export mounted on /mnt/nfs with fstype nfs4 statvers=1.1
\tper-op statistics
\t        READ: 12 12 0 2448 787344 1 20 22 0
\t       WRITE: 3 3 0 1 1 1 1 1 0
device other mounted on /other with fstype nfs4 statvers=1.1
\t        READ: 99 99 0 2448 787344 1 20 22 0
"""


def test_counters_split_by_address(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    entries = [(0xFFFFFFFF81000000, 5), (0xFFFFFFFFC0001000, 7), (0xFFFFFFFFC0002000, 11)]
    path.write_bytes(b"".join(struct.pack("=QQ", *e) for e in entries) + bytes(4096))
    low, high = 0xFFFFFFFFC0001000, 0xFFFFFFFFC0002000
    assert instructions.Counters(path).read(low, high) == (23, 7)


def test_operations_of_one_mount() -> None:
    assert mountstats.operations(MOUNTSTATS, "/mnt/nfs") == {"READ": 12, "WRITE": 3}


def test_ratio_of_medians() -> None:
    text = bench.table({"reads": {"stock": [90.0, 100.0, 110.0], "ours": [50.0, 400.0, 150.0]}})
    assert "1.50" in text
    assert "100 ±10%" in text


def test_table_without_ours_has_no_ratio() -> None:
    text = bench.table({"reads": {"stock": [100.0]}})
    assert text.splitlines()[1].split() == ["reads", "100", "-"]


def test_story_of_the_rpc_with_the_chunk() -> None:
    story = demo.interesting(TRACE.splitlines(), "chunk_write")
    assert [event.split(":")[0] for event in story] == [
        "xprtrdma_marshal",
        "xprtrdma_chunk_write",
        "xprtrdma_post_send",
        "xprtrdma_reply",
    ]
    assert "xid=0x2" in story[0]
