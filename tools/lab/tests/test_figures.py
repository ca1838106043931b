# SPDX-License-Identifier: GPL-2.0
"""Counters by address, operations of a mount, and the trace of one RPC."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

from lab import demo, mountstats
from lab.bench import instructions

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


def test_counters_add_up_by_block(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    entries = [
        (0xFFFFFFFF81000000, 5, 1),
        (0xFFFFFFFFC0001000, 7, 7),
        (0xFFFFFFFF81000000, 11, 2),
    ]
    path.write_bytes(b"".join(struct.pack("=QQQ", *e) for e in entries) + bytes(4096 * 3))
    instructions_of, runs_of = instructions.Counters(path).snapshot()
    assert instructions_of == {0xFFFFFFFF81000000: 16, 0xFFFFFFFFC0001000: 7}
    assert runs_of == {0xFFFFFFFF81000000: 3, 0xFFFFFFFFC0001000: 7}
    assert instructions.Counters(path).read() == instructions_of


KALLSYMS = """\
ffffffff81000000 T _text
ffffffffc0001000 t first\t[rpcrdma]
ffffffffc0001040 T second\t[rpcrdma]
ffffffffc0001080 d data\t[rpcrdma]
ffffffffc0009000 t other\t[sunrpc]
"""


def test_instructions_by_function() -> None:
    names = instructions.Functions(KALLSYMS, "rpcrdma")
    counts = Counter({0xFFFFFFFFC0001000: 10, 0xFFFFFFFFC0001010: 20, 0xFFFFFFFFC0001050: 300})
    costs = instructions.by_function(counts, names, 10)
    assert costs == {"second": 30.0, "first": 3.0}
    everything = instructions.Functions(KALLSYMS)
    counts[0xFFFFFFFF81000010] = 5
    assert instructions.by_function(counts, everything, 10)["_text"] == 0.5


def test_operations_of_one_mount() -> None:
    assert mountstats.operations(MOUNTSTATS, "/mnt/nfs") == {"READ": 12, "WRITE": 3}


def test_events_of_the_rpc_with_the_chunk() -> None:
    story = demo.interesting(TRACE.splitlines(), "chunk_write")
    assert [event.split(":")[0] for event in story] == [
        "xprtrdma_marshal",
        "xprtrdma_chunk_write",
        "xprtrdma_post_send",
        "xprtrdma_reply",
    ]
    assert "xid=0x2" in story[0]
