#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares our decoding of headers, and of private data, with tshark's.

Reads what `cargo run --example messages` prints, wraps each item in a packet, has tshark dissect
the capture, and compares field by field. Exits 1 on the first difference, 77 if there is no tshark.

tshark decodes version-one headers field by field, and the dissector in tools/wireshark those of
version two. Of private data this script takes only the bytes from tshark. It compares them with the
ones that we have encoded, and decodes them a second time, by the layouts in RFC 8797 section 4 and
in Documentation/wire.rst.
"""

import pathlib
import re
import shutil
import struct
import sys

import packets

PRIVATE = {
    "req": "infiniband.cm.req.ip_cm.private",
    "rep": "infiniband.cm.rep.private",
    "mpa-req": "iwarp_mpa.privatedata",
    "mpa-rep": "iwarp_mpa.privatedata",
}

MAGIC, VERSIONS_MAGIC = 0xF6AB0E18, 0xB542A32C


TSHARK = pathlib.Path(__file__).parents[1] / "wireshark/tshark"

# Names of fields of version one, and those of version two that are not the same behind the dot.
RENAMED = {"flow_control": "credits", "msg_type": "proc"}
# What only version one has.
ONLY_ONE = {"rdma_align", "rdma_thresh"}


class MismatchError(Exception):
    """Our decoding differs from tshark's."""


def ours(fields: dict[str, str]) -> dict[str, list[int]]:
    """Returns the fields of a header that we have decoded."""

    def listed(name: str) -> list[str]:
        return [v for v in fields.get(name, "").split(",") if v]

    def one(name: str) -> list[int]:
        return [int(fields[name])] if name in fields else []

    segments = [s.split(":") for s in listed("segments")]
    return {
        "rpcordma.xid": [int(fields["xid"], 16)],
        "rpcordma.version": [1],
        "rpcordma.flow_control": one("credits"),
        "rpcordma.msg_type": one("proc"),
        "rpcordma.rdma_align": one("align"),
        "rpcordma.rdma_thresh": one("thresh"),
        "rpcordma.reads_count": one("reads"),
        "rpcordma.writes_count": one("writes"),
        "rpcordma.reply_count": one("reply"),
        "rpcordma.segment_count": [int(n) for n in listed("counts")],
        "rpcordma.rdma_handle": [int(s[0], 16) for s in segments],
        "rpcordma.rdma_length": [int(s[1]) for s in segments],
        "rpcordma.rdma_offset": [int(s[2], 16) for s in segments],
        "rpcordma.position": [int(p) for p in listed("positions")],
        "rpcordma.errcode": one("error"),
        "rpcordma.vers_low": one("low"),
        "rpcordma.vers_high": one("high"),
    }


def ours_in_two(fields: dict[str, str]) -> dict[str, list[int]]:
    """Returns the fields of a header of version two that we have decoded."""
    names = {name: name.removeprefix("rpcordma.") for name in ours(fields)}
    found = {
        f"rpcordma2.{RENAMED.get(names[name], names[name])}": values
        for name, values in ours(fields).items()
        if names[name] not in ONLY_ONE
    }
    found["rpcordma2.version"] = [2]
    # The message is a call; an error has no direction.
    found["rpcordma2.direction"] = [] if "error" in fields else [0]
    return found


def check_headers(items: list[list[str]]) -> str:
    """Compares transport headers of version one, field by field."""
    heuristic = ("--enable-heuristic", "rpcrdma_infiniband")
    return compare(items, [ours(fields(item)) for item in items], *heuristic)


def check_headers_of_two(items: list[list[str]]) -> str:
    """Compares transport headers of version two, field by field."""
    wanted = [ours_in_two(fields(item)) for item in items]
    return "version two: " + compare(items, wanted, tshark=TSHARK)


def compare(
    items: list[list[str]],
    wanted: list[dict[str, list[int]]],
    *options: str,
    tshark: str | pathlib.Path = "tshark",
) -> str:
    """Compares headers with what tshark makes of them, field by field."""
    frames = [packets.send(bytes.fromhex(item[1]), psn) for psn, item in enumerate(items)]
    rows = packets.dissect(frames, list(wanted[0]), *options, tshark=tshark)
    compared = 0
    for item, want, row in zip(items, wanted, rows, strict=True):
        for field, values in want.items():
            compared += 1
            theirs = [int(v, 0) for v in row[field]]
            if theirs != values:
                raise MismatchError(f"{field}: tshark {theirs}, we {values}: {' '.join(item)}")
    return f"{len(items)} headers, {compared} fields"


def private_frame(kind: str, number: int, field: bytes) -> bytes:
    """Returns a packet of the handshake with a field of private data."""
    if kind == "req":
        return packets.cm_req(number, field)
    if kind == "rep":
        return packets.cm_rep(number, field)
    return packets.mpa(number, field, to_server=kind == "mpa-req")


def read_private(field: bytes) -> dict[str, str]:
    """Returns the message in private data, by the layout of RFC 8797, or nothing."""
    for at in range(len(field) - 7):
        magic, version, flags, send, receive = struct.unpack_from("!IBBBB", field, at)
        if magic == MAGIC and version == 1:
            found = {"invalidation": flags & 1}
            found |= {"send": (send + 1) * 1024, "receive": (receive + 1) * 1024}
            found |= read_versions(field[at + 8 :])
            return {k: str(v) for k, v in found.items()}
    return {}


def read_versions(behind: bytes) -> dict[str, int]:
    """Returns the range in the second format of private data, or zeros."""
    for at in range(len(behind) - 7):
        magic, version, _, low, high = struct.unpack_from("!IBBBB", behind, at)
        if magic == VERSIONS_MAGIC and version == 1 and 0 < low <= high:
            return {"low": low, "high": high}
    return {"low": 0, "high": 0}


def check_private(items: list[list[str]]) -> str:
    """Compares private data: the bytes that tshark finds, and the decoded settings."""
    frames = [
        private_frame(item[0], number // 2, bytes.fromhex(item[1]))
        for number, item in enumerate(items)
    ]
    rows = packets.dissect(frames, sorted(set(PRIVATE.values())))
    for item, row in zip(items, rows, strict=True):
        theirs = row.pop(PRIVATE[item[0]])
        if theirs != [item[1]] or any(row.values()):
            raise MismatchError(f"{item[0]}: tshark {theirs}, we {item[1]}")
        if read_private(bytes.fromhex(theirs[0])) != fields(item):
            raise MismatchError(f"{item[0]}: decoded differently: {' '.join(item)}")
    return f"{len(items)} fields of private data"


def fields(item: list[str]) -> dict[str, str]:
    """Returns the items that we have decoded."""
    return dict(re.findall(r"(\w+)=(\S*)", " ".join(item[2:])))


def main() -> int:
    """Compares all items."""
    if not shutil.which("tshark"):
        print("cross-check: no tshark", file=sys.stderr)
        return 77
    items = [line.split() for line in sys.stdin]
    headers = [item for item in items if item[0] == "header"]
    two = [item for item in items if item[0] == "header2"]
    private = [item for item in items if item[0] in PRIVATE]
    total = len(headers) + len(two) + len(private)
    if not headers or not two or not private or total != len(items):
        print("cross-check: unexpected items to compare", file=sys.stderr)
        return 1
    try:
        agreed = [check_headers(headers), check_headers_of_two(two), check_private(private)]
    except MismatchError as mismatch:
        print(f"cross-check: {mismatch}", file=sys.stderr)
        return 1
    print(f"cross-check: {'; '.join(agreed)}: agree with tshark")
    return 0


if __name__ == "__main__":
    sys.exit(main())
