# SPDX-License-Identifier: GPL-2.0
"""The hostile peer's interface for Python: the process that does verbs, and the messages.

RPC-over-RDMA version one is RFC 8166, the private data RFC 8797. Nothing here checks
what is sent: the callers break rules on purpose.
"""

import os
import selectors
import struct
import subprocess
import time

MSG, NOMSG, MSGP, DONE, ERROR = range(5)
ERR_VERS, ERR_CHUNK = 1, 2
CREDITS = 32
GRANT = "f6ab0e1801000303"  # version 1, no remote invalidation announced, 4096 bytes each way
#: Receives posted: more than the credits granted.
RECEIVES = 64


def words(*values):
    return struct.pack(f">{len(values)}I", *(value & 0xFFFFFFFF for value in values))


def segment(handle, length, offset):
    return words(handle, length, offset >> 32, offset)


def chunk(segments):
    return words(len(segments)) + b"".join(segment(*one) for one in segments)


def lists(reads=(), writes=(), reply=None):
    """Encodes the chunk lists: reads are (position, segment), writes and reply are segments."""
    out = b"".join(words(1, position) + segment(*one) for position, one in reads) + words(0)
    out += b"".join(words(1) + chunk(one) for one in writes) + words(0)
    return out + (words(0) if reply is None else words(1) + chunk(reply))


def header(xid, kind=MSG, grant=CREDITS, version=1):
    return words(xid, version, grant, kind)


def system_error(xid):
    """Returns an RPC reply that was accepted and reports a system error."""
    return words(xid, 1, 0, 0, 0, 5)


class Call:
    """A message of the client: RPC call and what its header offers."""

    def __init__(self, connection, data):
        self.connection, self.data = connection, data
        self.xid, self.version, self.credits, self.kind = struct.unpack_from(">4I", data)
        # RDMA_MSGP has two words more before its lists.
        self._at = 24 if self.kind == MSGP else 16
        self.reads, self.writes, self.reply = [], [], None
        while self._word():
            position = self._word()
            self.reads.append((position, self._segment()))
        while self._word():
            self.writes.append(self._chunk())
        if self._word():
            self.reply = self._chunk()
        self.payload = data[self._at :]

    def _word(self):
        (value,) = struct.unpack_from(">I", self.data, self._at)
        self._at += 4
        return value

    def _segment(self):
        handle, length = self._word(), self._word()
        return handle, length, self._word() << 32 | self._word()

    def _chunk(self):
        return [self._segment() for _ in range(self._word())]

    @property
    def handles(self):
        """Returns every R_key that the call exposes."""
        parts = [one for _, one in self.reads] + [one for chunk in self.writes for one in chunk]
        return [handle for handle, _, _ in parts + (self.reply or [])]


class SilenceError(Exception):
    """No event came in time."""


class Peer:
    """The process, from its first connection to its last."""

    #: Its arguments, and the event that says that it has started.
    ARGUMENTS, FIRST = (), "listening"

    def __init__(self):
        self._process = subprocess.Popen(
            ["/lab/hostile", *self.ARGUMENTS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._partial, self._events = b"", []
        self.event(20, self.FIRST)

    def event(self, timeout, *wanted, number=None):
        """Returns the next event as a list of words.

        With `wanted` it is the next one of these kinds, with `number` of this connection.
        """
        deadline = time.monotonic() + timeout
        while True:
            for index, event in enumerate(self._events):
                if wanted and event[0] not in wanted:
                    continue
                if number is None or event[1] == number:
                    return self._events.pop(index)
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise SilenceError(" ".join(wanted))
            self._read()

    def _read(self):
        data = os.read(self._process.stdout.fileno(), 1 << 20)
        if not data:
            raise SilenceError("the peer is gone")
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            if line.startswith(b"fatal"):
                raise SystemExit(line.decode())
            self._events.append(line.decode().split())

    def tell(self, command, connection, *arguments, timeout=60):
        """Sends one command and returns how it ended."""
        line = " ".join([command, str(connection), *map(str, arguments)])
        self._process.stdin.write(line.encode() + b"\n")
        return " ".join(self.event(timeout, "done")[2:])

    def accept(self, connection, private=GRANT, receives=RECEIVES):
        return self.tell("accept", connection, private or "-", receives)

    def send(self, connection, data):
        return self.tell("send", connection, data.hex() or "-")

    def kill(self):
        """Kills the process; the kernel releases its resources."""
        self._process.kill()
        self._process.wait()
