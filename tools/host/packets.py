# SPDX-License-Identifier: GPL-2.0
"""Packets for tshark to dissect, and the fields that it finds.

RoCEv2 Sends carry transport headers. Private data travel in the REQ and REP of the InfiniBand
communication manager, which are datagrams to queue pair 1, or in the MPA frames of iWARP, over TCP.
"""

import pathlib
import struct
import subprocess
import tempfile

CLIENT, SERVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
# The port of NFS/RDMA. Its service ID also ends with this number.
PORT = 20049

RC_SEND_ONLY, UD_SEND_ONLY = 0x04, 0x64

# Communication management class, and two of its attributes (InfiniBand volume 1, section 16.7).
CM_CLASS, CM_REQ, CM_REP = 0x07, 0x0010, 0x0013


def ethernet(protocol: int, data: bytes, to_server: bool = True) -> bytes:
    """Returns an Ethernet frame with an IPv4 packet."""
    ends = (CLIENT, SERVER) if to_server else (SERVER, CLIENT)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 0, 0, 64, protocol, 0, *ends)
    return bytes(12) + b"\x08\x00" + head + data


def roce(
    opcode: int, qp: int, psn: int, payload: bytes, extended: bytes = b"", to_server: bool = True
) -> bytes:
    """Returns a RoCEv2 packet: base transport header, extended header, payload, padding, ICRC."""
    pad = -len(payload) % 4
    bth = struct.pack("!BBHII", opcode, pad << 4, 0xFFFF, qp, psn)
    data = bth + extended + payload + bytes(pad) + bytes(4)
    return ethernet(17, struct.pack("!HHHH", 49152, 4791, 8 + len(data), 0) + data, to_server)


def send(message: bytes, psn: int) -> bytes:
    """Returns a Send of a reliable connection."""
    return roce(RC_SEND_ONLY, 0x11, psn, message)


def cm_req(number: int, private: bytes) -> bytes:
    """Returns a connection request with RDMA IP CM header and 56 bytes of private data."""
    assert len(private) == 56
    service = struct.pack("!IBBH", 0, 1, 6, PORT)
    body = struct.pack("!II8sQII", number, 0, service, 1, 0, 0)
    # Queue pair 0x11 and three more words, P_Key; then no paths.
    body += struct.pack("!IIIIHH", 0x1100, 0, 0, 0, 0xFFFF, 0) + bytes(88)
    ip_cm = struct.pack("!BBH", 0, 0x40, 4321) + bytes(12) + CLIENT + bytes(12) + SERVER
    return _mad(number, CM_REQ, body + ip_cm + private, to_server=True)


def cm_rep(number: int, private: bytes) -> bytes:
    """Returns the reply to a connection request, with 196 bytes of private data."""
    assert len(private) == 196
    body = struct.pack("!IIIIIIIQ", number + 1, number, 0, 0x1200, 0, 0, 0, 2)
    return _mad(number, CM_REP, body + private, to_server=False)


def _mad(number: int, attribute: int, data: bytes, *, to_server: bool) -> bytes:
    """Returns a management datagram of 256 bytes, between queue pairs 1."""
    assert len(data) == 232
    mad = struct.pack("!BBBBHHQHHI", 1, CM_CLASS, 2, 3, 0, 0, number, attribute, 0, 0)
    deth = struct.pack("!II", 0x80010000, 1)
    return roce(UD_SEND_ONLY, 1, number, mad + data, deth, to_server)


def mpa(number: int, private: bytes, *, to_server: bool) -> bytes:
    """Returns an MPA request or reply of revision 1 with private data, in a TCP segment."""
    key = b"MPA ID Req Frame" if to_server else b"MPA ID Rep Frame"
    frame = key + struct.pack("!BBH", 0x40, 1, len(private)) + private
    client = 1024 + number
    ports = (client, PORT) if to_server else (PORT, client)
    # The request ends where the reply's acknowledgement begins: both have the same length.
    tcp = struct.pack(
        "!HHIIBBHHH", *ports, 1, 1 + len(frame) * (not to_server), 0x50, 0x18, 512, 0, 0
    )
    return ethernet(6, tcp + frame, to_server)


def dissect(
    frames: list[bytes],
    fields: list[str],
    *options: str,
    tshark: str | pathlib.Path = "tshark",
) -> list[dict[str, list[str]]]:
    """Lets tshark dissect frames. Returns a dictionary of field values for each frame."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "frames.pcap"
        with path.open("wb") as out:
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for number, frame in enumerate(frames):
                out.write(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)
        command = [tshark, "-r", path, "-T", "fields", "-E", "separator=|", *options]
        command += [part for field in fields for part in ("-e", field)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("|") for line in run.stdout.splitlines()]
    split = [[[v for v in column.split(",") if v] for column in row] for row in rows]
    return [dict(zip(fields, row, strict=True)) for row in split]
