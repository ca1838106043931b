# SPDX-License-Identifier: GPL-2.0
"""Builds small captures of RoCEv2 frames for the tests."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

CLIENT, SERVER = "10.0.0.2", "10.0.0.1"
CLIENT_QP, SERVER_QP = 0x11, 0x22
SEND_ONLY, SEND_ONLY_INV, WRITE_ONLY, READ_REQUEST = 0x04, 0x17, 0x0A, 0x0C
SEND_FIRST, SEND_MIDDLE, SEND_LAST, WRITE_MIDDLE = 0x00, 0x01, 0x02, 0x07

Segment = tuple[int, int, int]


def _words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _segment(segment: Segment) -> bytes:
    return struct.pack(">IIQ", *segment)


def _chunk(segments: list[Segment]) -> bytes:
    return _words(1, len(segments)) + b"".join(map(_segment, segments))


def header(
    xid: int,
    *,
    grant: int = 32,
    version: int = 1,
    kind: int = 0,
    direction: int = 0,
    reads: list[tuple[int, Segment]] | None = None,
    writes: list[list[Segment]] | None = None,
    reply: list[Segment] | None = None,
) -> bytes:
    """Returns a transport header with chunk lists; version two also has a direction."""
    out = _words(xid, version, grant, kind, *([direction] if version == 2 else []))
    for position, segment in reads or []:
        out += _words(1, position) + _segment(segment)
    out += _words(0)
    out += b"".join(map(_chunk, writes or [])) + _words(0)
    return out + (_chunk(reply) if reply is not None else _words(0))


def error(xid: int, code: int, *versions: int, grant: int = 32, version: int = 2) -> bytes:
    """Returns RDMA_ERROR, or RDMA2_ERROR; ERR_VERS has two versions."""
    return _words(xid, version, grant, 4, code, *versions)


def optional(xid: int, kind: int, data: bytes, *, direction: int = 0, grant: int = 32) -> bytes:
    """Returns RDMA2_OPTIONAL. The length of the data is a multiple of four."""
    return _words(xid, 2, grant, 5, direction, kind, len(data)) + data


def values(**characteristics: int) -> bytes:
    """Returns a list of characteristics: receive, invalidation and backward, in this order."""
    found = [value(name, number) for name, number in characteristics.items()]
    return _words(len(found)) + b"".join(found)


def value(name: str, number: int) -> bytes:
    """Returns one characteristic."""
    return _words({"receive": 1, "invalidation": 2, "backward": 3}[name], 4, number)


def subset(*elements: int) -> bytes:
    """Returns a subset of the first 32 elements of a list."""
    return _words(1, sum(1 << element for element in elements))


def null_call(xid: int) -> bytes:
    """Returns the call message of NFSv3's NULL procedure."""
    return _words(xid, 0, 2, 100003, 3, 0, 0, 0, 0, 0)


def null_reply(xid: int) -> bytes:
    """Returns the reply to that call, accepted and without results."""
    return _words(xid, 1, 0, 0, 0, 0)


@dataclass
class Cable:
    """Collects frames in the order in which they pass."""

    frames: list[bytes] = field(default_factory=list)
    _sequence: dict[str, int] = field(default_factory=dict)

    def _packet(self, source: str, opcode: int, body: bytes) -> None:
        sequence = self._sequence.get(source, 100)
        self._sequence[source] = sequence + 1
        to_server = source == CLIENT
        queue = SERVER_QP if to_server else CLIENT_QP
        pad = -len(body) % 4
        base = struct.pack(">BBHII", opcode, 0x40 | pad << 4, 0xFFFF, queue, sequence)
        udp_body = base + body + bytes(pad) + bytes(4)
        udp = struct.pack(">HHHH", 50000, 4791, 8 + len(udp_body), 0) + udp_body
        addresses = bytes(map(int, source.split(".")))
        addresses += bytes(map(int, (SERVER if to_server else CLIENT).split(".")))
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + addresses
        self.frames.append(bytes(12) + b"\x08\x00" + ip + udp)

    def call(self, head: bytes, message: bytes = b"", *, invalidate: int | None = None) -> None:
        """Adds a Send of the client, which invalidates an R_key if one is given."""
        self._send(CLIENT, head + message, invalidate)

    def answer(self, head: bytes, message: bytes = b"", *, invalidate: int | None = None) -> None:
        """Adds a Send of the server, which invalidates an R_key if one is given."""
        self._send(SERVER, head + message, invalidate)

    def _send(self, source: str, body: bytes, invalidate: int | None) -> None:
        if invalidate is None:
            self._packet(source, SEND_ONLY, body)
        else:
            self._packet(source, SEND_ONLY_INV, _words(invalidate) + body)

    def in_parts(self, source: str, body: bytes, size: int) -> None:
        """Adds a Send in packets of at most `size` bytes. It must take at least two."""
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        last = len(parts) - 1
        for number, part in enumerate(parts):
            opcode = {0: SEND_FIRST, last: SEND_LAST}.get(number, SEND_MIDDLE)
            self._packet(source, opcode, part)

    def data(self, payload: bytes) -> None:
        """Adds a packet from the middle of an RDMA Write by the server."""
        self._packet(SERVER, WRITE_MIDDLE, payload)

    def access(
        self, *, write: bool, address: int, handle: int, length: int, by_client: bool = False
    ) -> None:
        """Adds an RDMA Write of zeros or a Read request, by default of the server."""
        reth = struct.pack(">QII", address, handle, length)
        body = reth + bytes(length) if write else reth
        source = CLIENT if by_client else SERVER
        self._packet(source, WRITE_ONLY if write else READ_REQUEST, body)

    def save(self, path: Path) -> Path:
        """Writes a pcap file."""
        out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65536, 1)
        for index, frame in enumerate(self.frames):
            out += struct.pack("<IIII", index, 0, len(frame), len(frame)) + frame
        path.write_bytes(out)
        return path
