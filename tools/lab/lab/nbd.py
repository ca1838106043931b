# SPDX-License-Identifier: GPL-2.0
"""The server's side of the NBD protocol, as far as QEMU uses it: one client at a time.

The protocol is that of doc/proto.md of the NBD project: fixed newstyle negotiation, simple replies.
Trimming and writing of zeroes are not offered, so QEMU writes zeroes as data.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Protocol

_GREETING = struct.pack(">QQH", 0x4E42444D41474943, 0x49484156454F5054, 0b11)
_OPTION, _OPTION_REPLY = struct.Struct(">QII"), struct.Struct(">QIII")
_REQUEST, _REPLY = struct.Struct(">IHHQQI"), struct.Struct(">IIQ")
_GO, _EXPORT_NAME, _ABORT = 7, 1, 2
_ACK, _INFO, _UNSUPPORTED = 1, 3, 0x80000001
#: Flags of the export: they are there; it takes flushes and writes that must be durable (FUA).
_FLAGS = 0b1101
_FUA = 1
READ, WRITE, _DISCONNECT, FLUSH = range(4)


class Store(Protocol):
    """The contents of a disk. Each method raises `OSError` for a failure that the guest sees."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Returns bytes of the disk."""

    def write(self, offset: int, data: bytes, *, durable: bool) -> None:
        """Writes bytes; `durable`: they must survive a loss of power."""

    def flush(self) -> None:
        """Makes all earlier writes survive a loss of power."""


def _exactly(source: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = source.recv(min(count - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def _negotiate(client: socket.socket, size: int) -> bool:
    """Answers options until the client begins to use the disk; returns whether it does."""
    client.sendall(_GREETING)
    _exactly(client, 4)
    while True:
        magic, option, length = _OPTION.unpack(_exactly(client, _OPTION.size))
        _exactly(client, length)
        if option == _EXPORT_NAME:
            client.sendall(struct.pack(">QH", size, _FLAGS))
            return True
        reply = [0x3E889045565A9, option]
        if option == _GO:
            about = struct.pack(">HQH", 0, size, _FLAGS)
            client.sendall(_OPTION_REPLY.pack(*reply, _INFO, len(about)) + about)
            client.sendall(_OPTION_REPLY.pack(*reply, _ACK, 0))
            return True
        answer = _ACK if option == _ABORT else _UNSUPPORTED
        client.sendall(_OPTION_REPLY.pack(*reply, answer, 0))
        if option == _ABORT or magic != 0x49484156454F5054:
            return False


def _carry_out(store: Store, kind: int, flags: int, offset: int, length: int, data: bytes) -> bytes:
    """Carries one request out; returns what a read has read."""
    if kind == READ:
        return store.read(offset, length)
    if kind == WRITE:
        store.write(offset, data, durable=bool(flags & _FUA))
    elif kind == FLUSH:
        store.flush()
    else:
        raise OSError(errno.EINVAL, "no such request")
    return b""


def serve(client: socket.socket, store: Store) -> None:
    """Serves one client, request by request, until it disconnects."""
    if not _negotiate(client, store.size):
        return
    while True:
        header = _REQUEST.unpack(_exactly(client, _REQUEST.size))
        _, flags, kind, cookie, offset, length = header
        if kind == _DISCONNECT:
            return
        data = _exactly(client, length) if kind == WRITE else b""
        try:
            found, error = _carry_out(store, kind, flags, offset, length, data), 0
        except OSError as err:
            found, error = b"", err.errno or errno.EIO
        client.sendall(_REPLY.pack(0x67446698, error, cookie) + found)
