# SPDX-License-Identifier: GPL-2.0
"""Metrics of this host's server, of the protocol, of settings and of bounce buffers."""

from __future__ import annotations

from .. import connections
from ..host import Host, number
from ..mounts import listeners
from .metrics import Labels, Page

_FOLDER = "/proc/sys/sunrpc"
_THREADS = "/proc/fs/nfsd/threads"
#: The bounce buffers of the host, and the bytes of one (IO_TLB_SIZE).
SWIOTLB, SLOT = "/sys/kernel/debug/swiotlb", 2048

#: Counters of the server: file, name, further labels, description.
_COUNTERS: tuple[tuple[str, str, Labels, str], ...] = (
    ("recv", "server_received_messages", {}, "Messages that the server has received."),
    ("read", "server_segments", {"direction": "read"}, "Segments of clients read or written."),
    ("write", "server_segments", {"direction": "write"}, ""),
    ("sq_starve", "server_send_queue_waits", {}, "Times that a transfer waited to be posted."),
    ("limited", "server_limited_replies", {}, "Replies that reached a memory limit."),
    ("waited", "server_memory_waits", {}, "Times that a call waited for memory for its data."),
    ("unmapped", "server_unmapped_calls", {}, "Calls refused for lack of bounce buffers."),
    ("padded", "server_legacy_messages", {"kind": "padded"}, "Messages of RFC 5666, by kind."),
    ("done", "server_legacy_messages", {"kind": "done"}, ""),
    ("conf", "server_legacy_messages", {"kind": "conf"}, ""),
    ("exposed", "server_legacy_messages", {"kind": "exposed"}, ""),
)
#: The settings that are numbers.
_SETTINGS = (
    "rdma_slot_table_entries",
    "rdma_max_inline_read",
    "rdma_max_inline_write",
    "rdma_inline_auto",
    "rdma_traffic_class",
    "svc_rdma/max_requests",
    "svc_rdma/max_req_size",
    "svc_rdma/inline_auto",
    "svc_rdma/max_version",
    "svc_rdma/traffic_class",
)
#: The files of breaches by the role of this host.
_BREACHES = {"client": "breaches", "server": "requester_breaches"}


def tell(page: Page, host: Host) -> None:
    """Adds the metrics."""
    for file, name, labels, does in _COUNTERS:
        value = number(host.read(f"{_FOLDER}/svc_rdma/rdma_stat_{file}"))
        if value is not None:
            page.counter(name, does).add(value, labels)
    _tell_nfsd(page, host)
    for role, file in _BREACHES.items():
        _tell_breaches(page, role, host.read(f"{connections.FOLDER}/{file}") or "")
    for name in _SETTINGS:
        value = number(host.read(f"{_FOLDER}/{name}"))
        if value is not None:
            labels = {"name": name.replace("/", ".")}
            page.gauge("setting", "Settings of sysctl, below sunrpc.").add(value, labels)
    _tell_bounce_buffers(page, host)


def _tell_nfsd(page: Page, host: Host) -> None:
    for listener in listeners(host):
        does = "Ports at which nfsd listens for RDMA."
        page.gauge("server_listeners", does).add(1, {"rdma_port": str(listener.port)})
    threads = number((host.read(_THREADS) or "").split(" ")[0])
    if threads is not None:
        page.gauge("server_threads", "Threads of nfsd.").add(threads)


def _tell_breaches(page: Page, role: str, text: str) -> None:
    does = "Breaches of the protocol by peers, by the role of this host and by kind."
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            page.counter("breaches", does).add(int(words[1]), {"role": role, "kind": words[0]})


def _tell_bounce_buffers(page: Page, host: Host) -> None:
    """Adds the memory through which a device reaches all data in a confidential guest."""
    files = {"total": "io_tlb_nslabs", "used": "io_tlb_used", "peak": "io_tlb_used_hiwater"}
    for state, file in files.items():
        value = number(host.read(f"{SWIOTLB}/{file}"))
        if value is not None:
            does = "Bounce buffers of the host (SWIOTLB): all, in use, and the most in use."
            page.gauge("bounce_buffer_bytes", does).add(value * SLOT, {"state": state})
