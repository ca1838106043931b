# SPDX-License-Identifier: GPL-2.0
"""Metrics of this host's mounts by RDMA, from /proc/self/mountstats."""

from __future__ import annotations

from .. import mountstats
from ..host import Host
from ..mounts import Mount, mounts
from ..mountstats import Counts, Transport
from .metrics import Labels, Page

#: The port of NFS over RDMA.
_PORT = "20049"

#: Counters of transports: name, further labels, field, and description.
_COUNTERS: tuple[tuple[str, Labels, str, str], ...] = (
    ("client_sent_calls", {}, "sends", "Calls sent, retransmissions included."),
    ("client_replies", {}, "recvs", "Replies received."),
    ("client_unmatched_replies", {}, "bad_xids", "Replies that no call waited for."),
    ("client_refused_replies", {}, "bad_reply", "Replies that the client refused, and errors."),
    ("client_connect_wait_seconds", {}, "connect_seconds", "Time that calls waited to connect."),
    ("client_chunk_segments", {"chunk": "read"}, "read_chunks", "Segments offered in chunks."),
    ("client_chunk_segments", {"chunk": "write"}, "write_chunks", ""),
    ("client_chunk_segments", {"chunk": "reply"}, "reply_chunks", ""),
    (
        "client_offered_bytes",
        {},
        "rdma_request_bytes",
        "Bytes offered in write and reply chunks.",
    ),
    (
        "client_moved_bytes",
        {"way": "chunks"},
        "rdma_reply_bytes",
        "Bytes by way: written by the server into chunks, copied into calls, copied from replies.",
    ),
    ("client_moved_bytes", {"way": "inline_call"}, "pullup", ""),
    ("client_moved_bytes", {"way": "inline_reply"}, "fixup", ""),
    ("client_long_calls", {}, "nomsg", "Calls sent as a whole by RDMA."),
    ("client_failed_preparations", {}, "failed_marshal", "Calls not prepared at the first try."),
    ("client_regions_made", {}, "allocated", "Memory regions made."),
    ("client_local_invalidations", {}, "local_inv", "Regions that the client invalidated itself."),
    ("client_send_queue_full", {}, "empty_sendctx", "Times that the send queue was full."),
)


def tell(page: Page, host: Host) -> None:
    """Adds the counters of transports and operations."""
    text = host.read(mountstats.FILE) or ""
    found = mountstats.transports(text)
    shared: dict[tuple[str, str], list[Transport]] = {}
    for mount in mounts(host):
        if mount.is_rdma and mount.point in found:
            # Mounts from one server with one version of NFS share their transports.
            shared[_peer(mount), mount.version] = found[mount.point]
    for (peer, version), transports in shared.items():
        for transport in transports:
            _tell_transport(page, {"peer": peer, "nfs": version}, transport)
    for operation, counts in mountstats.total(mountstats.systems(host)).items():
        if counts.operations:
            _tell_operation(page, {"operation": operation}, counts)


def _peer(mount: Mount) -> str:
    """Returns address and port as the file of connections shows them."""
    port = mount.options.get("port", "0")
    address = f"[{mount.address}]" if ":" in mount.address else mount.address
    return f"{address}:{_PORT if port == '0' else port}"


def _tell_transport(page: Page, labels: Labels, transport: Transport) -> None:
    for name, further, field, does in _COUNTERS:
        page.counter(name, does).add(transport[field], labels | further)


def _tell_operation(page: Page, labels: Labels, counts: Counts) -> None:
    does = "Calls of an operation of NFS, of all mounts by RDMA."
    page.counter("client_operations", does).add(counts.operations, labels)
    does = "Calls of an operation that were sent again."
    page.counter("client_operation_retransmissions", does).add(counts.retransmissions, labels)
    does = "Calls of an operation that failed."
    page.counter("client_operation_errors", does).add(counts.errors, labels)
    does = "Time from the Send to the reply, added up over the calls of an operation."
    page.counter("client_operation_rtt_seconds", does).add(counts.rtt_ms / 1000, labels)
    does = "Time from the request to the end, added up over the calls of an operation."
    page.counter("client_operation_seconds", does).add(counts.execute_ms / 1000, labels)
    moved = page.counter("client_operation_bytes", "Bytes of calls and replies, as SUNRPC counts.")
    moved.add(counts.sent, labels | {"direction": "sent"})
    moved.add(counts.received, labels | {"direction": "received"})
