#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares our decoding of version one with that of tshark.

Reads the messages that `cargo run --example messages` prints, wraps each in a RoCEv2 packet, has
tshark dissect the capture, and compares field by field. Exits 1 on the first difference, 77 if
there is no tshark. Private data are left out: tshark's dissector has no fields for them.
"""

import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

FIELDS = [
    "rpcordma.xid",
    "rpcordma.version",
    "rpcordma.flow_control",
    "rpcordma.msg_type",
    "rpcordma.rdma_handle",
    "rpcordma.rdma_length",
    "rpcordma.rdma_offset",
    "rpcordma.position",
    "rpcordma.errcode",
    "rpcordma.vers_low",
    "rpcordma.vers_high",
]


def packet(payload: bytes, opcode: int, qp: int, psn: int, extra: bytes = b"") -> bytes:
    """An Ethernet frame with a RoCEv2 packet from client to server."""
    pad = -len(payload) % 4
    bth = struct.pack("!BBHII", opcode, pad << 4, 0xFFFF, qp, psn)
    data = bth + extra + payload + bytes(pad) + bytes(4)
    udp = struct.pack("!HHHH", 49152, 4791, 8 + len(data), 0)
    head = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        28 + len(data),
        0,
        0,
        64,
        17,
        0,
        bytes([10, 0, 0, 1]),
        bytes([10, 0, 0, 2]),
    )
    return bytes(12) + b"\x08\x00" + head + udp + data


def capture(path: pathlib.Path, messages: list[bytes]) -> None:
    """Writes a pcap file, one Send for each message."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, message in enumerate(messages):
            frame = packet(message, 4, 0x11, number)
            out.write(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)


def ours(line: str) -> dict:
    """The fields that we have decoded."""
    fields = dict(re.findall(r"(\w+)=(\S*)", line))
    segments = [s.split(":") for s in fields.get("segments", "").split(",") if s]
    return {
        "rpcordma.xid": [int(fields["xid"], 16)],
        "rpcordma.version": [1],
        "rpcordma.flow_control": [int(fields["credits"])],
        "rpcordma.msg_type": [int(fields["proc"])],
        "rpcordma.rdma_handle": [int(s[0], 16) for s in segments],
        "rpcordma.rdma_length": [int(s[1]) for s in segments],
        "rpcordma.rdma_offset": [int(s[2], 16) for s in segments],
        "rpcordma.position": [int(p) for p in fields.get("positions", "").split(",") if p],
        "rpcordma.errcode": [int(fields["error"])] if "error" in fields else [],
        "rpcordma.vers_low": [int(fields["low"])] if "low" in fields else [],
        "rpcordma.vers_high": [int(fields["high"])] if "high" in fields else [],
    }


def theirs(path: pathlib.Path) -> list[dict]:
    """The fields that tshark has decoded, a dictionary for each packet."""
    command = [
        "tshark",
        "-r",
        str(path),
        "-T",
        "fields",
        "-E",
        "separator=|",
        "--enable-heuristic",
        "rpcrdma_infiniband",
    ]
    for field in FIELDS:
        command += ["-e", field]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = []
    for line in run.stdout.splitlines():
        columns = [[int(v, 0) for v in c.split(",") if v] for c in line.split("|")]
        rows.append(dict(zip(FIELDS, columns, strict=True)))
    return rows


def main() -> int:
    """Compares all messages."""
    if not shutil.which("tshark"):
        print("cross-check: no tshark", file=sys.stderr)
        return 77
    lines = [line.rstrip("\n") for line in sys.stdin]
    if not lines:
        print("cross-check: no messages to compare", file=sys.stderr)
        return 1
    messages = [bytes.fromhex(line.split()[0]) for line in lines]
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "messages.pcap"
        capture(path, messages)
        rows = theirs(path)
    if len(rows) != len(lines):
        print(f"cross-check: {len(rows)} packets of {len(lines)}", file=sys.stderr)
        return 1
    compared = 0
    for line, row in zip(lines, rows, strict=True):
        want = ours(line.split(maxsplit=1)[1])
        for field in FIELDS:
            compared += 1
            if row[field] != want[field]:
                print(
                    f"cross-check: {field}: tshark {row[field]}, we {want[field]}: {line}",
                    file=sys.stderr,
                )
                return 1
    print(f"cross-check: {len(lines)} messages, {compared} fields agree with tshark")
    return 0


if __name__ == "__main__":
    sys.exit(main())
