# SPDX-License-Identifier: GPL-2.0
"""Reads a capture with tshark's dissectors into plain records.

One pass over the file finds the frames that carry an RPC-over-RDMA message, start an RDMA Read or
Write, or could not be dissected. Every Send to a queue pair that is not the connection manager's
should carry a message. Version one is dissected by tshark itself, version two by tools/wireshark.
"""

from __future__ import annotations

import mmap
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .errors import LabError

#: tshark with the dissector of version two.
TSHARK = paths.ROOT / "tools/wireshark/tshark"

#: A queue pair: the address of its host, and its number. Each device of a host numbers its own.
Queue = tuple[str, int]

#: Fields that a message of either version has, and their names in the dissectors of both.
_COMMON = ("xid", "version", "reads_count", "writes_count", "reply_count", "position")
_COMMON += ("segment_count", "rdma_handle", "rdma_length", "rdma_offset", "errcode")
_COMMON += ("vers_low", "vers_high")
_ONE = {name: f"rpcordma.{name}" for name in _COMMON}
_ONE |= {"credits": "rpcordma.flow_control", "proc": "rpcordma.msg_type"}
_TWO = {name: f"rpcordma2.{name}" for name in (*_COMMON, "credits", "proc")}
#: Fields that only version two has.
_ONLY_TWO = ("direction", "message_length", "opttype", "xchar_which", "receive_size")
_ONLY_TWO += ("invalidation", "backward", "done", "rejected", "pending", "pendclr")

_FIELDS = (
    "frame.number",
    "ip.src",
    "ipv6.src",
    "ip.dst",
    "ipv6.dst",
    "udp.length",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.ieth",
    *_ONE.values(),
    *_TWO.values(),
    *(f"rpcordma2.{name}" for name in _ONLY_TWO),
    "rpcordma2.malformed",
    "rpcordma2.breach",
    "_ws.expert.message",
    "rpc.msgtyp",
    "_ws.malformed",
    "infiniband.cm.rep",
    "infiniband.cm.rep.localqpn",
    "infiniband.cm.rep.remotecommid",
    "infiniband.cm.req",
    "infiniband.cm.req.localqpn",
    "rpcordma_cm.recv_size",
    "rpcordma_cm.s",
)

#: Bytes of every RoCE packet: its UDP port.
ROCE = re.compile(re.escape((4791).to_bytes(2, "big")))
#: Bytes of a REQ of the connection manager: the beginning of its header, and its attribute.
REQUEST = re.compile(rb"\x01\x07\x02\x03.{12}\x00\x10", re.DOTALL)
#: InfiniBand opcodes of the reliable connected service.
_WRITE_STARTS = (0x06, 0x0A, 0x0B)
_READ_REQUEST = 0x0C
#: Bytes around the payload of a packet: UDP header, base transport header and checksum.
_AROUND = 8 + 12 + 4
#: Opcodes that complete a Receive: SEND LAST and ONLY, plain, with immediate, with invalidate.
SENDS = (0x02, 0x03, 0x04, 0x05, 0x16, 0x17)
SENDS_WITH_INVALIDATE = (0x16, 0x17)
#: Opcodes of RDMA Writes and of responses to RDMA Reads: their payload is a user's data.
PAYLOADS = (*range(0x06, 0x0C), *range(0x0D, 0x11))
_SENDS_FILTER = "infiniband.bth.opcode in {" + ",".join(map(str, SENDS)) + "}"
#: Queue pairs 0 and 1 belong to the connection manager. tshark guesses the protocol of a TCP stream
#: from port numbers, so only malformed frames of the RDMA protocols count.
_FILTER = (
    "(rpcordma || rpcordma2 || infiniband.reth || infiniband.cm.rep || infiniband.cm.req"
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
class Operation:
    """An optional operation of version two: its number and its contents."""

    kind: int
    #: Characteristics, by id and in order; the value is None where the dissector knows no type.
    values: tuple[tuple[int, int | None], ...] = ()
    #: The elements of a request that RESP_XCHAR names.
    done: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    pending: frozenset[int] = frozenset()
    #: UPD_XCHAR: an earlier request is no longer pending.
    cleared: bool = False


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
    #: The versions that ERR_VERS names.
    versions: tuple[int, int] | None = None
    #: 0 for a call, 1 for a reply, None for version one without an RPC message in this frame.
    direction: int | None = None
    #: Version one: bytes of payload in the RoCE packet; 0 without a RoCE packet.
    #: Version two: bytes of the whole message.
    size: int = 0
    operation: Operation | None = None

    def header(self) -> int:
        """Returns the size of a transport header with chunk lists (RFC 8166, section 4)."""
        chunks = [*self.writes, *([] if self.reply is None else [self.reply])]
        lists = 3 * 4 + 24 * len(self.reads) + 4 * len(self.writes)
        direction = 4 if self.version == 2 else 0
        return 16 + direction + lists + sum(4 + 16 * len(chunk) for chunk in chunks)


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
    #: The requester's number for the connection, in its request and in the answer.
    handshake: int | None = None
    #: The requester's queue pair, when it requests a connection.
    requests: int | None = None
    #: The size of Receives in private data, if it holds in version two as well.
    receive: int | None = None
    #: The address that the frame goes to.
    destination: str = ""
    #: The objections of the dissector of version two.
    objection: str = ""

    @property
    def receiver(self) -> Queue:
        """The queue pair that the frame goes to."""
        return self.destination, self.queue


def _numbers(text: str) -> list[int]:
    return [int(word, 0) for word in text.split(",") if word]


def _message(row: dict[str, str]) -> Message | None:
    """Rebuilds the chunk lists from flat fields, which tshark prints in the order of the wire."""
    two = bool(row["rpcordma2.xid"])
    found = {name: _numbers(row[field]) for name, field in (_TWO if two else _ONE).items()}
    if not found["xid"]:
        return None
    columns = [found[name] for name in ("rdma_handle", "rdma_length", "rdma_offset")]
    segments = iter([Segment(*values) for values in zip(*columns, strict=not two)])
    # A malformed message of version two may announce more segments than it has.
    nothing = Segment(0, 0, 0)
    reads = tuple((position, next(segments, nothing)) for position in found["position"])
    left = len(columns[0]) - len(reads)
    chunks = [
        tuple(next(segments, nothing) for _ in range(min(count, left)))
        for count in found["segment_count"]
    ]
    has_reply = sum(found["reply_count"]) > 0
    vers = (*found["vers_low"], *found["vers_high"])
    direction = _first(row["rpcordma2.direction" if two else "rpc.msgtyp"])
    kind = found["proc"][0]
    length = sum(_numbers(row["udp.length"])) - _AROUND
    return Message(
        xid=found["xid"][0],
        version=found["version"][0],
        credits=found["credits"][0],
        kind=kind,
        reads=reads,
        writes=tuple(chunks[:-1] if has_reply else chunks),
        reply=chunks[-1] if has_reply and chunks else None,
        error=found["errcode"][0] if found["errcode"] else None,
        versions=(vers[0], vers[1]) if len(vers) == 2 else None,
        # An error of version two has no direction: it is always a reply.
        direction=1 if two and direction is None else direction,
        size=(_first(row["rpcordma2.message_length"]) or 0) if two else max(0, length),
        operation=_operation(row),
    )


def _first(text: str) -> int | None:
    return next(iter(_numbers(text)), None)


def _elements(text: str) -> frozenset[int]:
    """Returns the elements in the words of a subset."""
    words = enumerate(_numbers(text))
    return frozenset(32 * n + bit for n, word in words for bit in range(32) if word >> bit & 1)


def _operation(row: dict[str, str]) -> Operation | None:
    kind = _first(row["rpcordma2.opttype"])
    if kind is None:
        return None
    names = {1: "receive_size", 2: "invalidation", 3: "backward"}
    columns = {which: iter(_numbers(row[f"rpcordma2.{name}"])) for which, name in names.items()}
    ids = _numbers(row["rpcordma2.xchar_which"])
    subsets = [_elements(row[f"rpcordma2.{name}"]) for name in ("done", "rejected", "pending")]
    return Operation(
        kind,
        tuple((which, next(columns.get(which, iter(())), None)) for which in ids),
        *subsets,
        cleared=_first(row["rpcordma2.pendclr"]) == 1,
    )


def _objection(row: dict[str, str]) -> str:
    """The words of the dissector of version two about a message that is malformed or not legal."""
    kinds = [kind for kind in ("malformed", "breach") if row[f"rpcordma2.{kind}"]]
    return f"{kinds[0]}: {row['_ws.expert.message']}" if kinds else ""


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


def _receive(row: dict[str, str]) -> int | None:
    holds = _first(row["rpcordma_cm.s"]) == 1
    return _first(row["rpcordma_cm.recv_size"]) if holds else None


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
            destination=(row["ip.dst"] or row["ipv6.dst"]).split(",")[0],
            opcode=opcode,
            queue=queue,
            sequence=sequence,
            message=_message(row),
            access=_access(row, opcode),
            malformed=bool(row["_ws.malformed"]),
            invalidates=_invalidates(row, opcode),
            accepts=_accepts(row),
            handshake=_first(row["infiniband.cm.req"] or row["infiniband.cm.rep.remotecommid"]),
            requests=_first(row["infiniband.cm.req.localqpn"]),
            receive=_receive(row),
            objection=_objection(row),
        )


def read(pcap: Path) -> list[Frame]:
    """Dissects a capture. A capture that is cut off in its last frame is valid.

    # Errors
    `LabError` when tshark is missing or fails.
    """
    return list(parse_rows(_tshark(pcap, _FILTER, _FIELDS)))


def contains(pcap: Path, pattern: re.Pattern[bytes]) -> bool:
    """Returns whether a capture has these bytes, `ROCE` or `REQUEST`: tshark is much slower."""
    if not pcap.stat().st_size:
        return False
    with pcap.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return pattern.search(data) is not None


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


def accepted(pcap: Path) -> list[bytes]:
    """Returns the private data of each reply to a request for a connection, with the padding.

    # Errors
    The same as those of `read`.
    """
    lines = _tshark(pcap, "infiniband.cm.rep", ["infiniband.cm.rep.private"])
    return [bytes.fromhex(line.replace(":", "")) for line in lines]


def traffic_classes(pcap: Path) -> dict[str, set[int]]:
    """Returns the traffic classes of the RoCE packets of queue pairs, by the sender's address.

    # Errors
    The same as those of `read`.
    """
    found: dict[str, set[int]] = {}
    # Queue pairs 0 and 1 belong to the connection manager.
    what = "infiniband.bth.destqp > 1 && !icmp && !icmpv6"
    for line in _tshark(pcap, what, ["ip.src", "ipv6.src", "ip.dsfield", "ipv6.tclass"]):
        four, six, *classes = line.split("\t")
        found.setdefault(four or six, set()).add(int("".join(classes), 0))
    return found


def _tshark(pcap: Path, what: str, fields: Sequence[str]) -> list[str]:
    """Returns one line of tab-separated fields for each frame that passes the filter."""
    if not shutil.which("tshark"):
        raise LabError("tshark: not installed; run tools/lab/bootstrap")
    args = [str(TSHARK), "-n", "-r", str(pcap), "-Y", what]
    args += ["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]
    for field in fields:
        args += ["-e", field]
    done = subprocess.run(args, capture_output=True, text=True, timeout=900)
    if done.returncode and "cut short" not in done.stderr:
        raise LabError(f"tshark on {pcap}: {done.stderr.strip()[-500:]}")
    return done.stdout.splitlines()
