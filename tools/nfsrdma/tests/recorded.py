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


def _decode(xid: int, proc: str = "RDMA_MSG") -> str:
    words = f"xid=0x{xid:08x} vers=1 credits=128 proc={proc} hdrlen=28"
    return f"svcrdma_decode_rqst: cq.id=3 cid=7 {words}"


def _processed(xid: int, procedure: str) -> str:
    where = "server=10.0.0.1:20049 client=10.0.0.2:51000"
    return f"svc_stats_latency: xid=0x{xid:08x} {where} proc={procedure} execute-us=30"


_SENT = "svcrdma_post_send: cq.id=3 cid=9 num_sge=1 inv_rkey=0"

#: Calls on a server with two threads: microseconds, thread and text.
SERVED_CALLS = [
    # A READ by the first thread, beside a WRITE that the second thread takes and the first ends.
    (0, 1, _decode(0x10000001)),
    (10, 2, _decode(0x11000001)),
    (20, 2, "svcrdma_post_read_chunk: cq.id=3 cid=21 sqecount=1"),
    (50, 1, _processed(0x10000001, "READ")),
    (60, 1, "svcrdma_post_write_chunk: cq.id=3 cid=9 sqecount=1"),
    (61, 1, _SENT),
    (400, 9, "svcrdma_wc_read: cq.id=3 cid=21 totalbytes=4096 latency-us=300"),
    (460, 1, _processed(0x11000001, "WRITE")),
    (470, 1, _SENT),
    # A GETATTR over RDMA, and one over TCP.
    (500, 2, _decode(0x12000001)),
    (540, 2, _processed(0x12000001, "GETATTR")),
    (541, 2, _SENT),
    (550, 2, _processed(0x77777777, "GETATTR")),
    # A long call with a long reply.
    (600, 2, _decode(0x13000001, "RDMA_NOMSG")),
    (610, 2, "svcrdma_post_read_chunk: cq.id=3 cid=22 sqecount=1"),
    (900, 9, "svcrdma_wc_read: cq.id=3 cid=22 totalbytes=9000 latency-us=250"),
    (960, 1, _processed(0x13000001, "COMPOUND")),
    (970, 1, "svcrdma_post_reply_chunk: cq.id=3 cid=9 sqecount=1"),
    (971, 1, _SENT),
]


def lines(events: Sequence[tuple[int, str]]) -> list[str]:
    """Returns the lines of a trace that begins after 100 seconds."""
    return [
        f"     kworker/u4:1-123     [001] .....   {100 + micros / 1e6:.6f}: {text}"
        for micros, text in events
    ]


def server_lines(events: Sequence[tuple[int, int, str]]) -> list[str]:
    """Returns the lines of a server's trace that begins after 100 seconds."""
    return [
        f"            nfsd-{thread}     [001] .....   {100 + micros / 1e6:.6f}: {text}"
        for micros, thread, text in events
    ]
