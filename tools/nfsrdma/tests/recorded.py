# SPDX-License-Identifier: GPL-2.0
"""Events as the kernel prints them: pairs of microseconds and text."""

from __future__ import annotations

from collections.abc import Sequence

_TASK = "task:0000002a@00000005"
_REGION = "mr.id=31 nents=15 65536@0x996e54485e574000:0x000022d5 (FROM_DEVICE)"

READ = [
    (0, f"rpc_request: {_TASK} nfsv4 READ (async)"),
    (15, f"xprtrdma_mr_map: {_TASK} {_REGION}"),
    (20, f"xprtrdma_chunk_write: {_TASK} 65536@0x996e54485e574000:0x000022d5 (last)"),
    (30, f"xprtrdma_marshal: {_TASK} xid=0x996e5448 hdr=52 xdr=176/0/0 pullup/write list"),
    (40, f"xprtrdma_mr_fastreg: {_TASK} {_REGION}"),
    (45, f"xprtrdma_post_send: {_TASK} cq.id=1 cid=127 (1 SGE) "),
    (2160, f"xprtrdma_reply: {_TASK} xid=0x996e5448 credits=128"),
    (2165, f"xprtrdma_mr_reminv: {_REGION}"),
    (
        2290,
        f"rpc_task_end: {_TASK} flags=ASYNC|DYNAMIC runstate=RUNNING|ACTIVE status=65536"
        " action=0x0",
    ),
    (
        2300,
        f"rpc_stats_latency: {_TASK} xid=0x996e5448 nfsv4 READ backlog=10 rtt=2100 execute=2290"
        " xprt_id=1",
    ),
    (2310, "xprtrdma_mr_unmap: mr.id=31 nents=0 65536@0x996e54485e574000:0x000022d5 (FROM_DEVICE)"),
]

_OTHER = "task:0000002b@00000005"

GETATTR = [
    (1000, f"rpc_request: {_OTHER} nfsv4 GETATTR (sync)"),
    (1010, f"xprtrdma_marshal: {_OTHER} xid=0x996e5449 hdr=28 xdr=140/0/0 pullup/inline"),
    (1020, f"xprtrdma_post_send: {_OTHER} cq.id=1 cid=126 (1 SGE) "),
    (1120, f"xprtrdma_reply: {_OTHER} xid=0x996e5449 credits=128"),
    (1130, f"rpc_task_end: {_OTHER} flags=DYNAMIC runstate=RUNNING|ACTIVE status=0 action=0x0"),
    (
        1140,
        f"rpc_stats_latency: {_OTHER} xid=0x996e5449 nfsv4 GETATTR backlog=5 rtt=110 execute=130"
        " xprt_id=1",
    ),
]


def lines(events: Sequence[tuple[int, str]]) -> list[str]:
    """Returns the lines of a trace that begins after 100 seconds."""
    return [
        f"     kworker/u4:1-123     [001] .....   {100 + micros / 1e6:.6f}: {text}"
        for micros, text in events
    ]
