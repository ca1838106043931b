# SPDX-License-Identifier: GPL-2.0
"""Probes whether a port of another host listens for RDMA.

It sends a connection request through the connection manager's device, and abandons it as soon as
there is an answer. No queue pair is made, so no RDMA message is ever sent. A device of iWARP must
not be probed in this way: it looks for the queue pair that the request names. The structures are
those of include/uapi/rdma/rdma_user_cm.h, whose ABI does not change.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import select
import socket
import struct
from enum import Enum

DEVICE = "/dev/infiniband/rdma_cm"

#: Commands (RDMA_USER_CM_CMD_*).
_CREATE_ID, _RESOLVE_IP, _RESOLVE_ROUTE, _CONNECT, _GET_EVENT = 0, 3, 4, 6, 12
#: Events (enum rdma_cm_event_type).
_ADDR_RESOLVED, _ROUTE_RESOLVED, _CONNECT_RESPONSE, _REJECTED, _ESTABLISHED = 0, 2, 5, 8, 9
#: RDMA_PS_TCP and IB_QPT_RC.
_PORT_SPACE, _QP_TYPE = 0x0106, 2
#: A number of 24 bits that no queue pair of this host has. The other host never uses it.
_QP_NUM = 0xFFFFFE
#: The mark of events. There are no events for a cm_id whose mark is zero.
_CONTEXT = 1
#: The reject reasons of a host on which nothing listens: IB_CM_REJ_INVALID_SERVICE_ID, and
#: -ECONNREFUSED over iWARP.
_NOBODY = (8, -111)

#: The size of struct rdma_ucm_event_resp.
_EVENT_SIZE = 336
#: Milliseconds for the address and for the route.
_RESOLVE_MS = 2000
#: Seconds until an answer is no longer waited for.
_PATIENCE = 5.0


class Answer(Enum):
    """The answer of a port."""

    LISTENS = "listens"
    REFUSED = "refused"
    #: A listener has refused this one request.
    REJECTED = "rejected"
    SILENT = "silent"
    #: The connection manager does not find a way to the address.
    UNRESOLVED = "unresolved"
    #: This host cannot ask: the connection manager's device is not there.
    UNKNOWN = "unknown"
    #: The connection manager takes no such request, as over iWARP without a queue pair.
    UNASKED = "unasked"


def ask(address: str, port: int) -> Answer:
    """Returns the answer of a port."""
    try:
        device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return Answer.UNKNOWN
    try:
        return _ask(device, _sockaddr(address, port))
    except (OSError, ValueError):
        return Answer.UNASKED
    finally:
        # The cm_id is destroyed with the file, and the request with it.
        os.close(device)


def _ask(device: int, peer: bytes) -> Answer:
    created = ctypes.create_string_buffer(4)
    where = ctypes.addressof(created)
    request = struct.pack("=QQHB5x", _CONTEXT, where, _PORT_SPACE, _QP_TYPE)
    _command(device, _CREATE_ID, request, len(created))
    (number,) = struct.unpack("=I", created.raw)
    if not _resolves(device, number, peer):
        return Answer.UNRESOLVED
    _command(device, _CONNECT, _connect(number))
    return verdict(*_event(device))


def _resolves(device: int, number: int, peer: bytes) -> bool:
    """Whether the connection manager finds an address and a route, which it may deny at once."""
    limit = struct.pack("=II", number, _RESOLVE_MS)
    try:
        _command(device, _RESOLVE_IP, bytes(28) + peer + limit)
        if _event(device)[0] != _ADDR_RESOLVED:
            return False
        _command(device, _RESOLVE_ROUTE, limit)
        return _event(device)[0] == _ROUTE_RESOLVED
    except OSError:
        return False


def verdict(event: int | None, status: int) -> Answer:
    """Returns the meaning of the last event; None stands for no event."""
    if event in (_CONNECT_RESPONSE, _ESTABLISHED):
        return Answer.LISTENS
    if event == _REJECTED:
        return Answer.REFUSED if status in _NOBODY else Answer.REJECTED
    return Answer.SILENT


def _connect(number: int) -> bytes:
    """Returns struct rdma_ucm_connect: one RDMA Read at a time in each direction, no data."""
    qp_num, reads, retries = _QP_NUM, 1, 7
    params = struct.pack("=II256x", qp_num, 0)
    params += struct.pack("=8B", 0, 0, reads, reads, 0, retries, retries, 1)
    return params + struct.pack("=IIII", number, 0, 0, 0)


def _command(device: int, command: int, payload: bytes, out: int = 0) -> None:
    os.write(device, struct.pack("=IHH", command, len(payload), out) + payload)


def _event(device: int) -> tuple[int | None, int]:
    """Waits for an event. Returns its kind and its status; None if there is none."""
    ready, _, _ = select.select([device], [], [], _PATIENCE)
    if not ready:
        return None, 0
    response = ctypes.create_string_buffer(_EVENT_SIZE)
    where = struct.pack("=Q", ctypes.addressof(response))
    _command(device, _GET_EVENT, where, _EVENT_SIZE)
    kind, status = struct.unpack_from("=Ii", response.raw, 12)
    return kind, status


def _sockaddr(address: str, port: int) -> bytes:
    """Returns an address as a struct sockaddr_in6, of which an IPv4 address uses the begin.

    # Errors
    `ValueError`: it is no address. `OSError`: it has an interface that does not exist.
    """
    plain, _, interface = address.partition("%")
    parsed = ipaddress.ip_address(plain)
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    head = struct.pack("=H", family) + struct.pack("!H", port)
    if parsed.version == 4:
        return (head + parsed.packed).ljust(28, b"\0")
    scope = socket.if_nametoindex(interface) if interface else 0
    return head + bytes(4) + parsed.packed + struct.pack("=I", scope)
