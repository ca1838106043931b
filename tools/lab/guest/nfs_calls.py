# SPDX-License-Identifier: GPL-2.0
"""Calls of NFSv3 and NFSv4 as raw messages, and the contents of their replies.

Only what the hostile requester needs: every procedure has the caller's fields as arguments, and
nothing is checked.
"""

import socket
import struct
import time

from peer import words

NFS, MOUNT, PORTMAP = 100003, 100005, 100000
NULL, GETATTR, LOOKUP, READLINK, READ, WRITE, CREATE, SYMLINK = 0, 1, 3, 5, 6, 7, 8, 10
REMOVE, READDIR = 12, 16
COMPOUND = 1
#: Of NFSv4, and of its sessions.
V4_GETATTR, V4_LOOKUP, V4_PUTFH, V4_PUTROOTFH, V4_READ, V4_READDIR = 9, 15, 22, 24, 25, 26
V4_OPEN, V4_EXCHANGE_ID, V4_CREATE_SESSION, V4_SEQUENCE, V4_RECLAIM_COMPLETE = 18, 42, 43, 53, 58
V4_READLINK, V4_READ_PLUS = 27, 68
#: NFSv4's status until the server's grace period has passed.
GRACE = 10013


class RpcError(Exception):
    """A call failed, with its status as the message."""


def opaque(data):
    return words(len(data)) + data + bytes(-len(data) % 4)


def call(xid, procedure, arguments=b"", version=3, program=NFS):
    """Returns an RPC call with the credential of root."""
    credential = words(0) + opaque(b"lab") + words(0, 0, 0)
    head = words(xid, 0, 2, program, version, procedure, 1, len(credential)) + credential
    return head + words(0, 0) + arguments


def null(xid):
    return call(xid, NULL)


def getattr3(xid, handle):
    return call(xid, GETATTR, opaque(handle))


def lookup(xid, directory, name):
    return call(xid, LOOKUP, opaque(directory) + opaque(name))


def read(xid, handle, offset, count):
    return call(xid, READ, opaque(handle) + struct.pack(">QI", offset, count))


def write_arguments(handle, offset, count):
    """Returns the arguments of a WRITE up to the length of its data."""
    return opaque(handle) + struct.pack(">QIII", offset, count, 2, count)


def write_head(xid, handle, offset, count):
    """Returns a WRITE up to the length of its data, which is to follow or to be in a chunk."""
    return call(xid, WRITE, write_arguments(handle, offset, count))


def symlink_head(xid, directory, name, length):
    """Returns a SYMLINK up to the length of its target."""
    return call(xid, SYMLINK, opaque(directory) + opaque(name) + words(*[0] * 6, length))


def create(xid, directory, name):
    """Returns a guarded CREATE, which fails if the name exists."""
    return call(xid, CREATE, opaque(directory) + opaque(name) + words(1, 1, 0o666, 0, 0, 0, 0, 0))


def remove(xid, directory, name):
    return call(xid, REMOVE, opaque(directory) + opaque(name))


def compound(xid, *operations, minor=0):
    """Returns a call of NFSv4."""
    arguments = opaque(b"") + words(minor, len(operations)) + b"".join(operations)
    return call(xid, COMPOUND, arguments, version=4)


def exchange_id(xid, owner, *, minor=1):
    """Returns the call by which a client of NFSv4.1 or 4.2 makes itself known."""
    operation = words(V4_EXCHANGE_ID) + struct.pack(">d", time.time())
    return compound(xid, operation + opaque(owner) + words(0, 0, 0), minor=minor)


def create_session(xid, client, sequence, *, minor=1, longest=4096):
    """Returns the call that makes a session whose callbacks come over the same connection.

    `longest`: the bytes of the longest call and reply.
    """
    channel = words(0, longest, longest, 4096, 8, 4, 0)
    back_channel = 2
    arguments = client + words(sequence, back_channel) + channel * 2 + words(0x40000000, 1, 0)
    return compound(xid, words(V4_CREATE_SESSION) + arguments, minor=minor)


def exchanged(reply):
    """Returns the client and the sequence number in the reply to EXCHANGE_ID."""
    results = first_result(reply)
    return results[:8], *struct.unpack_from(">I", results, 8)


def first_result(reply):
    """Returns the results of a COMPOUND, without the status of the first operation.

    # Errors
    `RpcError` when the COMPOUND failed.
    """
    results = result(reply)
    failed, length = struct.unpack_from(">2I", results)
    if failed:
        raise RpcError(f"COMPOUND: {failed}")
    # The tag, the count, the operation and its status are before them.
    return results[8 + length + -length % 4 + 12 :]


def in_session(xid, session, number, *operations, minor=1):
    """Returns the call of this number in the first slot of a session."""
    sequence = words(V4_SEQUENCE) + session + words(number, 0, 0, 0)
    return compound(xid, sequence, *operations, minor=minor)


def reclaim_complete():
    return words(V4_RECLAIM_COMPLETE, 0)


def open4(client, path):
    """Returns the operations that open a file for reading, with a delegation if there is one."""
    read_delegation = 0x101
    owner = client + opaque(b"lab")
    by_handle = words(0, 4)
    return [*path4(*path), words(V4_OPEN, 0, read_delegation, 0) + owner + by_handle]


def path4(*names):
    """Returns the operations that walk to a file from the root."""
    return [words(V4_PUTROOTFH), *(words(V4_LOOKUP) + opaque(name) for name in names)]


def read4(offset, count, operation=V4_READ):
    """Returns a READ or READ_PLUS with the special state of all zeros."""
    return words(operation, 0, 0, 0, 0) + struct.pack(">QI", offset, count)


def readdir4(count):
    return words(V4_READDIR, 0, 0, 0, 0, count, count, 2, 0, 0)


def result(reply):
    """Returns the results of an RPC reply, after its header.

    # Errors
    `RpcError` when the call was not accepted.
    """
    direction, stat = struct.unpack_from(">2I", reply, 4)
    if direction != 1 or stat != 0:
        raise RpcError(f"denied {stat}")
    (length,) = struct.unpack_from(">I", reply, 16)
    at = 20 + length + -length % 4
    (status,) = struct.unpack_from(">I", reply, at)
    if status:
        raise RpcError(f"accept status {status}")
    return reply[at + 4 :]


def status(reply):
    """Returns the first word of the results: the status of NFS."""
    (value,) = struct.unpack_from(">I", result(reply))
    return value


class Tcp:
    """Calls over TCP, for the facts that the hostile requester needs before it begins."""

    def __init__(self, server, port):
        self._socket = socket.create_connection((server, port), 20)

    def ask(self, message):
        self._socket.sendall(words(1 << 31 | len(message)) + message)
        (mark,) = struct.unpack(">I", self._exactly(4))
        return result(self._exactly(mark & 0x7FFFFFFF))

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise SystemExit("the server has closed the TCP connection")
            data += more
        return data


def export_handle(server, path):
    """Returns the NFSv3 file handle of an export, which mountd knows."""
    portmap = Tcp(server, 111)
    answer = portmap.ask(call(1, 3, words(MOUNT, 3, 6, 0), version=2, program=PORTMAP))
    mountd = Tcp(server, struct.unpack(">I", answer)[0])
    answer = mountd.ask(call(2, 1, opaque(path), version=3, program=MOUNT))
    failed, length = struct.unpack_from(">2I", answer)
    if failed:
        raise SystemExit(f"mountd refuses {path}: {failed}")
    return answer[8 : 8 + length]
