# SPDX-License-Identifier: GPL-2.0
"""Reads a capture with tshark's dissectors into plain records.

One pass over the file finds the frames that carry an RPC-over-RDMA message, start an RDMA Read or
Write, or could not be dissected. Every Send to a queue pair that is not the connection manager's
should carry a message.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

_FIELDS = (
    "frame.number",
    "ip.src",
    "ipv6.src",
    "udp.length",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.ieth",
    "rpcordma.xid",
    "rpcordma.version",
    "rpcordma.flow_control",
    "rpcordma.msg_type",
    "rpcordma.reads_count",
    "rpcordma.writes_count",
    "rpcordma.reply_count",
    "rpcordma.position",
    "rpcordma.segment_count",
    "rpcordma.rdma_handle",
    "rpcordma.rdma_length",
    "rpcordma.rdma_offset",
    "rpcordma.errcode",
    "rpc.msgtyp",
    "_ws.malformed",
    "infiniband.cm.rep",
    "infiniband.cm.rep.localqpn",
)

#: InfiniBand opcodes of the reliable connected service.
_WRITE_STARTS = (0x06, 0x0A, 0x0B)
_READ_REQUEST = 0x0C
#: Bytes around the payload of a packet: UDP header, base transport header and checksum.
_AROUND = 8 + 12 + 4
#: Opcodes that complete a Receive: SEND LAST and ONLY, plain, with immediate, with invalidate.
SENDS = (0x02, 0x03, 0x04, 0x05, 0x16, 0x17)
SENDS_WITH_INVALIDATE = (0x16, 0x17)
_SENDS_FILTER = "infiniband.bth.opcode in {" + ",".join(map(str, SENDS)) + "}"
#: Queue pairs 0 and 1 belong to the connection manager. tshark guesses the protocol of a TCP stream
#: from port numbers, so only malformed frames of the RDMA protocols count.
_FILTER = (
    "(rpcordma || infiniband.reth || infiniband.cm.rep"
    " || (_ws.malformed && (infiniband || iwarp_ddp_rdmap))"
    f" || ({_SENDS_FILTER} && infiniband.bth.destqp > 1))"
    # ICMP messages quote packets that arrived while a device was away.
    " && !icmp && !icmpv6"
)


@dataclass(frozen=True)
class Segment:
    """A registered memory segment as it appears on the wire."""

    handle: int
    length: int
    offset: int

    def covers(self, address: int, length: int) -> bool:
        """Whether an access of `length` bytes at `address` stays inside."""
        return self.offset <= address and address + length <= self.offset + self.length


@dataclass(frozen=True)
class Message:
    """One RPC-over-RDMA message: header fields and chunk lists."""

    xid: int
    version: int
    credits: int
    kind: int
    reads: tuple[tuple[int, Segment], ...] = ()
    writes: tuple[tuple[Segment, ...], ...] = ()
    reply: tuple[Segment, ...] | None = None
    error: int | None = None
    #: 0 for a call, 1 for a reply, None without an RPC message in this frame.
    direction: int | None = None
    #: Bytes of payload in the RoCE packet; 0 without a RoCE packet.
    size: int = 0

    def header(self) -> int:
        """Returns the size of the transport header in bytes (RFC 8166, section 4)."""
        chunks = [*self.writes, *([] if self.reply is None else [self.reply])]
        lists = 3 * 4 + 24 * len(self.reads) + 4 * len(self.writes)
        return 16 + lists + sum(4 + 16 * len(chunk) for chunk in chunks)


@dataclass(frozen=True)
class Access:
    """The start of an RDMA Read or Write."""

    write: bool
    address: int
    handle: int
    length: int


@dataclass(frozen=True)
class Frame:
    """One frame of the capture."""

    number: int
    source: str
    opcode: int
    queue: int
    sequence: int
    message: Message | None = None
    access: Access | None = None
    malformed: bool = False
    #: The R_key that a Send With Invalidate names.
    invalidates: int | None = None
    #: The responder's queue pair and its number for the connection, when it accepts a request.
    accepts: tuple[int, int] | None = None


def _numbers(text: str) -> list[int]:
    return [int(word, 0) for word in text.split(",") if word]


def _message(row: dict[str, str]) -> Message | None:
    """Rebuilds the chunk lists from flat fields, which tshark prints in the order of the wire."""
    xids = _numbers(row["rpcordma.xid"])
    if not xids:
        return None
    names = ("rdma_handle", "rdma_length", "rdma_offset")
    columns = [_numbers(row[f"rpcordma.{name}"]) for name in names]
    segments = iter([Segment(*values) for values in zip(*columns, strict=True)])
    positions = _numbers(row["rpcordma.position"])
    counts = _numbers(row["rpcordma.segment_count"])
    reads = tuple((position, next(segments)) for position in positions)
    chunks = [tuple(next(segments) for _ in range(count)) for count in counts]
    has_reply = sum(_numbers(row["rpcordma.reply_count"])) > 0
    error = _numbers(row["rpcordma.errcode"])
    direction = _numbers(row["rpc.msgtyp"])
    return Message(
        xid=xids[0],
        version=_numbers(row["rpcordma.version"])[0],
        credits=_numbers(row["rpcordma.flow_control"])[0],
        kind=_numbers(row["rpcordma.msg_type"])[0],
        reads=reads,
        writes=tuple(chunks[:-1] if has_reply else chunks),
        reply=chunks[-1] if has_reply and chunks else None,
        error=error[0] if error else None,
        direction=direction[0] if direction else None,
        size=max(0, sum(_numbers(row["udp.length"])) - _AROUND),
    )


def _access(row: dict[str, str], opcode: int) -> Access | None:
    if not row["infiniband.reth.r_key"] or opcode not in (*_WRITE_STARTS, _READ_REQUEST):
        return None
    names = ("va", "r_key", "dmalen")
    address, handle, length = (_numbers(row[f"infiniband.reth.{name}"])[0] for name in names)
    return Access(opcode in _WRITE_STARTS, address, handle, length)


def _invalidates(row: dict[str, str], opcode: int) -> int | None:
    """The R_key in the Invalidate Extended Transport Header: bytes, which tshark prints twice."""
    text = row["infiniband.ieth"].split(",")[0].replace(":", "")
    return int(text, 16) if text and opcode in SENDS_WITH_INVALIDATE else None


def _accepts(row: dict[str, str]) -> tuple[int, int] | None:
    """The REP of the connection manager."""
    numbers, queues = (_numbers(row[f"infiniband.cm.rep{name}"]) for name in ("", ".localqpn"))
    return (queues[0], numbers[0]) if numbers and queues else None


def parse_rows(lines: Iterable[str]) -> Iterator[Frame]:
    """Yields frames from tshark's tab-separated fields."""
    for line in lines:
        row = dict(zip(_FIELDS, line.rstrip("\n").split("\t"), strict=True))
        opcode, queue, sequence = (
            (_numbers(row[f"infiniband.bth.{name}"]) or [-1])[0]
            for name in ("opcode", "destqp", "psn")
        )
        yield Frame(
            number=int(row["frame.number"]),
            source=(row["ip.src"] or row["ipv6.src"]).split(",")[0],
            opcode=opcode,
            queue=queue,
            sequence=sequence,
            message=_message(row),
            access=_access(row, opcode),
            malformed=bool(row["_ws.malformed"]),
            invalidates=_invalidates(row, opcode),
            accepts=_accepts(row),
        )


def read(pcap: Path) -> list[Frame]:
    """Dissects a capture. A capture that is cut off in its last frame is valid.

    # Errors
    `LabError` when tshark is missing or fails.
    """
    return list(parse_rows(_tshark(pcap, _FILTER, _FIELDS)))


@dataclass(frozen=True)
class Request:
    """The parameters of a connection manager's REQ (InfiniBand, section 12.6.5)."""

    port: int
    #: RDMA Reads at a time that the client will issue, and that it will serve.
    initiator_depth: int
    responder_resources: int
    retries: int
    rnr_retries: int
    #: The private data with its padding.
    private_data: bytes


def requests(pcap: Path) -> list[Request]:
    """Returns the requests for connections in a capture.

    # Errors
    The same as those of `read`.
    """
    names = ("serviceid.dport", "initdepth", "responderres", "retrcount", "rnrretrcount")
    fields = [f"infiniband.cm.req.{name}" for name in (*names, "ip_cm.private")]
    found = []
    for line in _tshark(pcap, "infiniband.cm.req.serviceid", fields):
        *numbers, private = line.split("\t")
        found.append(Request(*(int(word, 0) for word in numbers), bytes.fromhex(private)))
    return found


def _tshark(pcap: Path, what: str, fields: Sequence[str]) -> list[str]:
    """Returns one line of tab-separated fields for each frame that passes the filter."""
    args = ["tshark", "-n", "-r", str(pcap), "-Y", what]
    args += ["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]
    for field in fields:
        args += ["-e", field]
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=900)
    except FileNotFoundError as err:
        raise LabError("tshark: not installed; run tools/lab/bootstrap") from err
    if done.returncode and "cut short" not in done.stderr:
        raise LabError(f"tshark on {pcap}: {done.stderr.strip()[-500:]}")
    return done.stdout.splitlines()
