#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A server of RFC 5666: oldserver.py CONF VERSION.

It takes nfsd's place, and gets true answers from nfsd over TCP. It sends no private data, returns
a few bytes of data inline though there is a write chunk for them, and includes the XDR round-up in
the length of the write chunks that it fills. CONF says what it does
with CONF_RDMA: ``none`` does not know the program, three numbers with commas are what it answers,
``deaf`` gives no answer, and ``odd`` one that is none. With ``+chunks`` behind it, replies of more
than 200 bytes come as read chunks, and each has to be followed by RDMA_DONE; ``+`` and the name of
a misdeed has the first of them break a rule. VERSION is that of NFS, of which it serves 3. It runs
until /run/oldserver.stop exists, and prints what it has counted.
"""

import os
import struct
import sys
from collections import Counter

from peer import DONE, MSG, MSGP, NOMSG, Call, Peer, SilenceError, header, lists, words

from hostile import RealServer

STOP = "/run/oldserver.stop"
CONF, NFS, READ, WRITE, SYMLINK = 100417, 100003, 6, 7, 10
#: The inline threshold before CONF_RDMA.
BASIC = 1024
#: How long to wait for a call before looking whether to stop.
LOOK = 0.2
#: Data of a READ that is no longer comes inline, and the write chunk is not used.
TINY = 16
#: Replies that come as read chunks have more bytes. Their memory, and how many may be exposed.
SHORT, MEMORY, EXPOSED = 200, 1 << 20, 8


def take(data, at, *kinds):
    """Skips XDR items: opaque data for None, otherwise that many bytes. Returns the end."""
    for kind in kinds:
        if kind is None:
            (length,) = struct.unpack_from(">I", data, at)
            at += 4 + length + -length % 4
        else:
            at += kind
    return at


class OldServer:
    """The server over one connection."""

    def __init__(self, peer, real, connection, options, counted):
        self._peer, self._real, self._connection = peer, real, connection
        self._options, self.counted = options, counted
        self._conf = options[0]
        self._inline = BASIC
        #: The memory for read chunks; the XIDs whose RDMA_DONE has not arrived, oldest first.
        self._region, self._exposed, self._at = None, [], 0

    def next_call(self):
        event = self._peer.event(LOOK, "received", "disconnected")
        if event[1] != self._connection:
            return self.next_call()
        if event[0] == "disconnected":
            return None
        data = bytes.fromhex(event[2])
        xid, _, _, kind = struct.unpack_from(">4I", data)
        if kind == DONE:
            self.counted["done" if xid in self._exposed and len(data) == 16 else "odd done"] += 1
            self._exposed = [other for other in self._exposed if other != xid]
            return self.next_call()
        return Call(self._connection, data)

    def answer(self, call):
        """Answers a call."""
        if self._conf != "none" and struct.unpack_from(">I", call.payload, 12) == (CONF,):
            return self._configure(call)
        reply = self._real.ask(self._message(call))
        if "chunks" in self._options and len(reply) > SHORT:
            return self._answer_by_chunks(call, reply)
        chunk = self._read_data(call, reply) if call.writes else None
        if chunk:
            return self._answer_read(call, reply, *chunk)
        if len(reply) + 28 <= self._inline:
            self.counted["inline"] += 1
            return self._send(header(call.xid) + lists() + reply)
        if not call.reply:
            raise SystemExit(f"{len(reply)} bytes are too long, and there is no reply chunk")
        self.counted["long"] += 1
        returned = self._write(call.reply, reply)
        return self._send(header(call.xid, NOMSG) + lists(reply=returned))

    def _send(self, message):
        done = self._peer.send(self._connection, message)
        if done != "success":
            print(f"failed: {done}", flush=True)

    def _message(self, call):
        """Returns the RPC message of a call, with its chunks and without its padding."""
        if call.kind == MSGP:
            return self._without_padding(call)
        body, chunks = call.payload, {}
        for position, segment in call.reads:
            chunks[position] = chunks.get(position, b"") + self._fetch(segment)
        if call.kind == NOMSG:
            self.counted["long calls"] += 1
            return chunks[0]
        for position, data in chunks.items():
            self.counted["read chunks"] += 1
            body = body[:position] + data + bytes(-len(data) % 4) + body[position:]
        return body

    def _without_padding(self, call):
        """Takes the padding out of a WRITE or SYMLINK."""
        align, thresh = struct.unpack_from(">2I", call.data, 16)
        body = call.payload
        program, version, procedure = struct.unpack_from(">3I", body, 12)
        arguments = take(body, 24, 4, None, 4, None)
        shapes = {WRITE: (None, 16), SYMLINK: (None, None, 24)}
        if (program, version) != (NFS, 3) or procedure not in shapes:
            raise SystemExit(f"padding in {program} {version} {procedure}")
        if procedure == SYMLINK:
            # The attributes: those that are set have a value behind their discriminant.
            at = take(body, arguments, None, None)
            for value in (4, 4, 4, 8):
                at += 4 + (value if body[at + 3] else 0)
            for _ in range(2):
                at += 4 + (8 if body[at + 3] == 2 else 0)
        else:
            at = take(body, arguments, *shapes[procedure])
        (length,) = struct.unpack_from(">I", body, at)
        at += 4
        origin = len(call.data) - len(body)
        # Section 3.9 says "exceeds" to the reader, and "at or above" to the sender.
        pad = -(origin + at) % align if length > thresh else 0
        if pad and any(body[at : at + pad]):
            raise SystemExit("padding that is not zero")
        if (origin + at + pad) % align:
            raise SystemExit("data that is not aligned")
        self.counted["padded"] += 1
        return body[:at] + body[at + pad :]

    def _fetch(self, segment):
        """Returns what RDMA Read finds in a segment."""
        handle, length, offset = segment
        done = self._peer.tell("read", self._connection, f"{handle:x}", f"{offset:x}", length)
        if done != "success":
            raise SystemExit(f"RDMA Read: {done}")
        return bytes.fromhex(self._peer.event(5, "data", number=self._connection)[2])

    def _write(self, segments, data):
        """Writes data to segments; returns them with the lengths that were written."""
        returned = []
        for handle, length, offset in segments:
            part, data = data[:length], data[length:]
            if part:
                where = f"{handle:x}", f"{offset:x}"
                done = self._peer.tell("write", self._connection, *where, part.hex())
                if done != "success":
                    raise SystemExit(f"RDMA Write: {done}")
            returned.append((handle, len(part), offset))
        if data:
            raise SystemExit(f"{len(data)} bytes have no room")
        return returned

    @staticmethod
    def _read_data(call, reply):
        """Returns where the data of the reply to a READ begins, and its length."""
        if struct.unpack_from(">3I", call.payload, 12) != (NFS, 3, READ):
            return None
        status, attributes = struct.unpack_from(">2I", reply, 24)
        if status:
            return None
        at = 32 + (84 if attributes else 0) + 8
        return at + 4, struct.unpack_from(">I", reply, at)[0]

    def _answer_read(self, call, reply, at, length):
        """Answers a READ through its write chunk, whose length includes the round-up."""
        if length <= TINY:
            self.counted["unused write chunks"] += 1
            unused = [(handle, 0, offset) for handle, _, offset in call.writes[0]]
            return self._send(header(call.xid) + lists(writes=[unused]) + reply)
        returned = self._write(call.writes[0], reply[at : at + length])
        used = [index for index, (_, part, _) in enumerate(returned) if part]
        if used and length % 4:
            self.counted["rounded up"] += 1
            handle, part, offset = returned[used[-1]]
            returned[used[-1]] = handle, part + -length % 4, offset
        self.counted["write chunks"] += 1
        rest = reply[at + length + -length % 4 :]
        return self._send(header(call.xid) + lists(writes=[returned]) + reply[:at] + rest)

    def _expose(self, data):
        """Exposes data for RDMA Read, in two segments; returns these."""
        if self._region is None:
            done = self._peer.tell("expose", self._connection, MEMORY, "r")
            if done != "success":
                raise SystemExit(f"expose: {done}")
            _, _, handle, address = self._peer.event(5, "exposed", number=self._connection)
            self._region = int(handle, 16), int(address, 16)
        if self._at + len(data) > MEMORY:
            self._at = 0
        at, half = self._at, len(data) // 8 * 4
        self._at += len(data)
        self._peer.tell("poke", self._connection, 0, at, data.hex())
        handle, address = self._region
        whole = [(handle, half, address + at), (handle, len(data) - half, address + at + half)]
        return [segment for segment in whole if segment[1]]

    def _answer_by_chunks(self, call, reply):
        """Answers by read chunks: the data of a READ, or the whole reply."""
        if len(self._exposed) == EXPOSED:
            print("no RDMA_DONE has arrived", flush=True)
            raise SystemExit(1)
        found = self._read_data(call, reply)
        if found and found[1]:
            at, length = found
            body = reply[:at] + reply[at + length + -length % 4 :]
            kind, position, data = MSG, at, reply[at : at + length]
            self.counted["data chunks"] += 1
        else:
            kind, position, body, data = NOMSG, 0, b"", reply
            self.counted["long replies"] += 1
        self._exposed.append(call.xid)
        segments = self._expose(data)
        misdeed = next((name for name in self._options if name in MISDEEDS), None)
        if misdeed:
            self._options.remove(misdeed)
            self._exposed.remove(call.xid)
            self.counted["misdeeds"] += 1
            position, segments = MISDEEDS[misdeed](position, segments)
        reads = [(position, segment) for segment in segments]
        message = header(call.xid, kind) + lists(reads=reads) + body
        self._send(message)
        if misdeed == "twice":
            self._send(message)

    def _configure(self, call):
        """Answers a call of the Connection Configuration Protocol."""
        self.counted["asked"] += 1
        if call.kind != MSG or len(call.data) > BASIC:
            raise SystemExit("CONF_RDMA is too long")
        if self._conf == "deaf":
            return None
        calls, replies, reads = struct.unpack(">3I", call.payload[-12:])
        print(f"request {calls} {replies} {reads}", flush=True)
        accepted = words(call.xid, 1, 0, 0, 0, 0)
        if self._conf == "odd":
            return self._send(header(call.xid) + lists() + accepted + words(1, 2))
        answer = [int(value) for value in self._conf.split(",")]
        self._inline = max(replies, BASIC)
        return self._send(header(call.xid) + lists() + accepted + words(*answer))


def _changed(segment, **fields):
    handle, length, offset = segment
    return fields.get("handle", handle), fields.get("length", length), fields.get("offset", offset)


#: How the first reply with read chunks breaks a rule: its position and its segments.
MISDEEDS = {
    "key": lambda at, parts: (at, [_changed(part, handle=part[0] ^ 0xFF00) for part in parts]),
    "endless": lambda at, parts: (at, [_changed(parts[0], length=0xFFFFFFFF), *parts[1:]]),
    "longer": lambda at, parts: (at, [_changed(part, length=1 << 20) for part in parts] * 3),
    "wrapping": lambda at, parts: (at, [_changed(part, offset=(1 << 64) - 2) for part in parts]),
    "odd": lambda at, parts: (at + 2, parts),
    "beyond": lambda at, parts: (at + (1 << 20), parts),
    "zero": lambda at, parts: (0 if at else 4, parts),
    "empty": lambda at, parts: (at, [_changed(part, length=0) for part in parts]),
    "many": lambda at, parts: (at, [_changed(parts[0], length=4)] * 200),
    "twice": lambda at, parts: (at, parts),
}


def serve(server):
    """Serves a connection until stopped or until the client leaves; returns if it stayed."""
    while not os.path.exists(STOP):
        try:
            call = server.next_call()
        except SilenceError:
            continue
        if call is None:
            return False
        server.answer(call)
    return True


def old_welcome(peer):
    """Accepts the next connection without private data; None when stopped."""
    while not os.path.exists(STOP):
        try:
            connection = peer.event(LOOK, "request")[1]
        except SilenceError:
            continue
        if peer.accept(connection, private="") == "success":
            return connection
    return None


def main():
    options = sys.argv[1].split("+")
    if os.path.exists(STOP):
        os.unlink(STOP)
    peer, real, counted = Peer(), RealServer(), Counter()
    print("ready", flush=True)
    try:
        while connection := old_welcome(peer):
            counted["connections"] += 1
            if serve(OldServer(peer, real, connection, options, counted)):
                break
    finally:
        for name, count in sorted(counted.items()):
            print(f"count {count} {name}", flush=True)
        peer.kill()


if __name__ == "__main__":
    main()
