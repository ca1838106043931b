# SPDX-License-Identifier: GPL-2.0
"""Messages of RPC-over-RDMA version two for the hostile peers.

Follows draft-cel-nfsv4-rpcrdma-version-two-01, and draft-dnoveck-nfsv4-rpcrdma-xcharext-01 for the
optional operations. Nothing here checks what is sent.
"""

import struct

from peer import CREDITS, ERROR, MSG, Call, header, lists, words

OPTIONAL = 5
ERR_VERS, ERR_BAD_HEADER, ERR_INVAL_OPTION = 1, 2, 3
CALL, REPLY = 0, 1
INIT, REQ, RESP, UPD = 1, 2, 3, 4
NAMES = {INIT: "INIT", REQ: "REQ", RESP: "RESP", UPD: "UPD"}
RECEIVE_SIZE, INVALIDATION, BACKWARD = 1, 2, 3
#: The first number for experiments, and one that is in no range.
EXPERIMENTAL, UNKNOWN = 0xFFFFFF00, 77
#: Private data: 4096 bytes each way, remote invalidation, and both versions in a second format.
BOTH_VERSIONS = "f6ab0e1801000303b542a32c01000102"


def rpc(xid, direction, payload, chunks=None, grant=CREDITS, kind=MSG):
    """Returns a message that carries an RPC message."""
    chunks = lists() if chunks is None else chunks
    return header(xid, kind, grant, 2) + words(direction) + chunks + payload


def optional(xid, direction, opttype, info, payload=b"", grant=CREDITS):
    """Returns an optional operation."""
    body = words(direction, opttype) + counted(info) + payload
    return header(xid, OPTIONAL, grant, 2) + body


def error(xid, code, *values, version=2, grant=CREDITS):
    """Returns an error; ERR_VERS has the lowest and the highest version as values."""
    return header(xid, ERROR, grant, version) + words(code, *values)


def counted(data):
    """Returns variable-length opaque data with its length and padding."""
    return words(len(data)) + data + bytes(-len(data) % 4)


def value(which, data):
    """Returns one characteristic; `data` is a number or bytes."""
    return words(which) + counted(data if isinstance(data, bytes) else words(data))


def init(*values, fixed=()):
    """Returns what INIT_XCHAR says; `fixed`: the words of the subset that does not change."""
    return words(len(values)) + b"".join(values) + words(len(fixed), *fixed)


def update(one, cleared=False):
    """Returns what UPD_XCHAR says."""
    return one + words(int(cleared))


def request(*values):
    """Returns what REQ_XCHAR says."""
    return words(len(values)) + b"".join(values)


class Message:
    """A message of either version. Fields that it does not have are None."""

    def __init__(self, connection, data):
        self.connection, self.data = connection, data
        self.xid, self.version, self.credits, self.kind = struct.unpack_from(">4I", data)
        self.direction = self.opttype = self.info = self.error = self.call = None
        if self.kind == ERROR:
            self.error = struct.unpack_from(">I", data, 16)[0]
        elif self.version != 2:
            self.call = Call(connection, data)
        elif self.kind == OPTIONAL:
            self.direction, self.opttype, length = struct.unpack_from(">3I", data, 16)
            self.info = data[28 : 28 + length]
        else:
            (self.direction,) = struct.unpack_from(">I", data, 16)
            # Without the direction the lists are where version one has them.
            self.call = Call(connection, data[:16] + data[20:])

    def values(self):
        """Returns the characteristics in INIT_XCHAR, REQ_XCHAR or UPD_XCHAR by their number."""
        at, found = 0, {}
        count = 1
        if self.opttype != UPD:
            (count,) = struct.unpack_from(">I", self.info)
            at = 4
        for _ in range(count):
            which, length = struct.unpack_from(">2I", self.info, at)
            found[which] = self.info[at + 8 : at + 8 + length]
            at += 8 + length + -length % 4
        return found

    def subsets(self):
        """Returns the words of the subsets done, rejected and pending in RESP_XCHAR."""
        at, found = 0, []
        for _ in range(3):
            (count,) = struct.unpack_from(">I", self.info, at)
            found.append(struct.unpack_from(f">{count}I", self.info, at + 4))
            at += 4 + 4 * count
        return found
