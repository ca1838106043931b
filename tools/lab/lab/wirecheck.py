# SPDX-License-Identifier: GPL-2.0
"""Checks of a capture against the rules of RPC-over-RDMA version one.

Follows RFC 8166: credits (section 3.3), chunk lists (3.4, 3.5), the responder's duties, the lengths
of what it has written, and the R_keys that it invalidates. The capture must begin before the
connections it shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .capture import SENDS, Access, Frame, Message, Segment

RDMA_MSG, RDMA_NOMSG, RDMA_ERROR = 0, 1, 4


@dataclass(eq=False)
class Connection:
    """The state of one connection's forward direction, as the packets show it."""

    grant: int = 1
    pending: dict[int, Message] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    #: R_keys that a reply has invalidated and that no call has offered since.
    invalidated: set[int] = field(default_factory=set)
    #: Bytes that RDMA Writes have put into a segment of an unanswered call, by XID and segment.
    written: dict[tuple[int, Segment], int] = field(default_factory=dict)

    def note(self, xid: int, segment: Segment, access: Access) -> None:
        """Adds the bytes of an RDMA Write."""
        if access.write:
            key = (xid, segment)
            self.written[key] = self.written.get(key, 0) + access.length

    def take_written(self, call: Message) -> dict[Segment, int]:
        """Removes and returns what was written for a call that is answered now."""
        segments = advertised(call, write=True)
        return {one: self.written.pop((call.xid, one), 0) for one in segments}


@dataclass
class Backward:
    """The backward direction: calls of the server, by XID, and what each connection grants."""

    #: Calls before the first grant. The protocol has one; the stock server was seen to send two.
    FIRST = 2

    #: The client's queue pair that each open call went to.
    pending: dict[int, int] = field(default_factory=dict)
    grants: dict[int, int] = field(default_factory=dict)

    def call(self, queue: int, message: Message) -> list[str]:
        """Notes a call of the server; returns what is wrong with it (RFC 8167, section 4)."""
        self.pending[message.xid] = queue
        flight = sum(other == queue for other in self.pending.values())
        grant = self.grants.get(queue, self.FIRST)
        faults = []
        if flight > grant:
            faults.append(f"{flight} backward calls in flight, {grant} granted")
        if message.reads or message.writes or message.reply is not None or message.kind != RDMA_MSG:
            faults.append("backward call with a chunk")
        return faults

    def answer(self, message: Message) -> bool:
        """Notes a reply of the client; returns whether it answers a backward call."""
        queue = self.pending.pop(message.xid, None)
        if queue is not None:
            self.grants[queue] = max(1, message.credits)
        return queue is not None


@dataclass
class Summary:
    """Counts of what a capture held: a caller can see that the check was not of nothing."""

    calls: int = 0
    replies: int = 0
    #: Calls whose three chunk lists are empty: call and reply are inline.
    without_chunks: int = 0
    #: Replies that a Reply chunk holds (RDMA_NOMSG): the call may have offered one in vain.
    long_replies: int = 0
    reads: int = 0
    writes: int = 0
    read_chunks: int = 0
    write_chunks: int = 0
    reply_chunks: int = 0
    position_zero: int = 0
    #: Segments in the calls' chunk lists; bytes offered for replies, and bytes used of these.
    read_segments: int = 0
    write_segments: int = 0
    reply_segments: int = 0
    offered: int = 0
    used: int = 0
    #: Bytes of RPC messages behind the calls' headers; exact if each message is one packet.
    inline: int = 0
    invalidates: int = 0
    backward: int = 0
    most_in_flight: int = 0
    violations: list[str] = field(default_factory=list)


class Checker:
    """Goes through the frames in order and notes every breach of a rule."""

    def __init__(self, *clients: str) -> None:
        """Takes the addresses of the requester."""
        self._clients = clients
        self._connections: dict[int, Connection] = {}
        self._reply_queue: dict[int, Connection] = {}
        self._backward = Backward()
        self._seen: set[tuple[str, int, int, int]] = set()
        #: Queue pairs of accepted connections, with the responder's number for the connection.
        self._accepted: set[tuple[int, int]] = set()
        self.summary = Summary()

    def run(self, frames: Iterable[Frame]) -> Summary:
        """Checks all frames."""
        for frame in frames:
            if frame.accepts:
                self._on_accept(*frame.accepts)
                continue
            if self._retransmitted(frame):
                continue
            if frame.message:
                self._on_message(frame, frame.message)
            elif frame.malformed:
                self._violation(frame, "malformed")
            elif frame.opcode in SENDS:
                self._violation(frame, "a Send that is no version-one message")
            if frame.access:
                self._on_access(frame)
        return self.summary

    def _on_accept(self, queue: int, number: int) -> None:
        """Begins a connection: a device that was removed and added counts queue pairs anew."""
        if (queue, number) in self._accepted:
            return
        self._accepted.add((queue, number))
        old = self._connections.pop(queue, None)
        self._seen = {key for key in self._seen if key[1] != queue}
        for key in [key for key, one in self._reply_queue.items() if one is old]:
            del self._reply_queue[key]

    def _violation(self, frame: Frame, text: str) -> None:
        self.summary.violations.append(f"frame {frame.number}: {text}")

    def _retransmitted(self, frame: Frame) -> bool:
        """Returns whether the frame repeats a packet: a retransmission is not another message."""
        key = (frame.source, frame.queue, frame.sequence, frame.opcode)
        if frame.opcode < 0 or key not in self._seen:
            self._seen.add(key)
            return False
        return True

    def _on_message(self, frame: Frame, message: Message) -> None:
        if frame.source in self._clients:
            self._from_client(frame, message)
        else:
            self._from_server(frame, message)

    def _from_client(self, frame: Frame, message: Message) -> None:
        if message.direction != 0 and self._backward.answer(message):
            return
        if frame.malformed:
            self._violation(frame, f"xid {message.xid:#x}: malformed call")
        if frame.invalidates is not None:
            self._violation(frame, f"xid {message.xid:#x}: Send With Invalidate by the requester")
        connection = self._connections.setdefault(frame.queue, Connection())
        if message.xid in connection.pending:
            self._violation(frame, f"xid {message.xid:#x}: sent again on the same connection")
        connection.pending[message.xid] = message
        connection.answered.discard(message.xid)
        connection.invalidated -= offered_keys(message)
        self._count_call(message)
        flight = len(connection.pending)
        self.summary.most_in_flight = max(self.summary.most_in_flight, flight)
        if flight > connection.grant:
            text = f"{flight} calls in flight, {connection.grant} granted"
            self._violation(frame, f"xid {message.xid:#x}: {text}")

    def _count_call(self, message: Message) -> None:
        self.summary.calls += 1
        chunks = message.reads or message.writes or message.reply is not None
        self.summary.without_chunks += not chunks
        self.summary.read_chunks += bool(message.reads)
        self.summary.position_zero += any(position == 0 for position, _ in message.reads)
        self.summary.write_chunks += bool(message.writes)
        self.summary.reply_chunks += message.reply is not None
        self.summary.read_segments += len(message.reads)
        self.summary.write_segments += sum(len(chunk) for chunk in message.writes)
        self.summary.reply_segments += len(message.reply or ())
        self.summary.offered += sum(s.length for s in advertised(message, write=True))
        self.summary.inline += message.size - message.header()

    def _from_server(self, frame: Frame, message: Message) -> None:
        connection = self._answering(frame.queue, message.xid)
        if connection is None:
            self._without_call(frame, message)
            return
        call = connection.pending.pop(message.xid)
        connection.answered.add(message.xid)
        self.summary.replies += 1
        self.summary.long_replies += message.kind == RDMA_NOMSG
        self.summary.used += sum(s.length for s in advertised(message, write=True))
        self._on_invalidation(frame, connection, call)
        # tshark cannot put placed data back into a READ's reply and calls that malformed.
        if frame.malformed and not message.writes:
            self._violation(frame, f"xid {message.xid:#x}: malformed reply")
        if message.credits == 0:
            self._violation(frame, f"xid {message.xid:#x}: grant of no credit")
        connection.grant = max(1, message.credits)
        written = connection.take_written(call)
        for text in answer_faults(call, message) + length_faults(call, message, written):
            self._violation(frame, f"xid {message.xid:#x}: {text}")

    def _without_call(self, frame: Frame, message: Message) -> None:
        """Takes a message that answers no call: a backward call is legal, a reply is not."""
        if message.direction == 0:
            self.summary.backward += 1
            for text in self._backward.call(frame.queue, message):
                self._violation(frame, f"xid {message.xid:#x}: {text}")
        else:
            self._violation(frame, f"xid {message.xid:#x}: reply without an unanswered call")
        if frame.invalidates is not None:
            text = f"invalidates R_key {frame.invalidates:#x} without an unanswered call"
            self._violation(frame, f"xid {message.xid:#x}: {text}")

    def _on_invalidation(self, frame: Frame, connection: Connection, call: Message) -> None:
        """Checks that the call offered the R_key, and that no reply has invalidated it before."""
        key = frame.invalidates
        if key is None:
            return
        self.summary.invalidates += 1
        if key not in offered_keys(call):
            text = f"invalidates R_key {key:#x}, which its call did not offer"
            self._violation(frame, f"xid {call.xid:#x}: {text}")
        elif key in connection.invalidated:
            text = f"invalidates R_key {key:#x}, which an earlier reply has invalidated"
            self._violation(frame, f"xid {call.xid:#x}: {text}")
        connection.invalidated.add(key)

    def _answering(self, queue: int, xid: int) -> Connection | None:
        """Returns the connection on which `xid` is unanswered, and learns its other queue pair.

        A device that was removed and added numbers its queue pairs from the start. So a known
        number may mean another connection now, on which the client has repeated the call.
        """
        known = self._reply_queue.get(queue)
        for connection in reversed(self._connections.values()):
            if xid not in connection.pending:
                continue
            if connection is known or connection not in self._reply_queue.values():
                self._reply_queue[queue] = connection
                return connection
        return None

    def _on_access(self, frame: Frame) -> None:
        """Checks that an RDMA Read or Write stays inside a segment of an unanswered call."""
        access = frame.access
        assert access is not None
        if access.write:
            self.summary.writes += 1
        else:
            self.summary.reads += 1
        if access.write and not access.length:
            # A probe, which either peer may send, needs no memory.
            return
        if frame.source in self._clients:
            self._violation(frame, "RDMA access by the requester")
            return
        for connection in self._connections.values():
            for call in connection.pending.values():
                for segment in advertised(call, write=access.write):
                    if segment.handle == access.handle and segment.covers(
                        access.address, access.length
                    ):
                        connection.note(call.xid, segment, access)
                        return
        verb = "Write" if access.write else "Read"
        where = f"{access.length} bytes at {access.address:#x}, R_key {access.handle:#x}"
        self._violation(frame, f"RDMA {verb} outside every advertised segment: {where}")


def advertised(call: Message, *, write: bool) -> list[Segment]:
    """Returns the segments that a responder may write to, or read from, for this call."""
    if not write:
        return [segment for _, segment in call.reads]
    segments = [segment for chunk in call.writes for segment in chunk]
    return segments + list(call.reply or ())


def offered_keys(call: Message) -> set[int]:
    """Returns the R_keys of all segments that a call offers."""
    segments = advertised(call, write=False) + advertised(call, write=True)
    return {segment.handle for segment in segments}


def answer_faults(call: Message, reply: Message) -> list[str]:
    """Returns the claims of a reply's chunk lists beyond what the call offered."""
    if reply.kind == RDMA_ERROR:
        return []
    faults = []
    if len(reply.writes) != len(call.writes):
        faults.append(f"{len(reply.writes)} Write chunks for {len(call.writes)} offered")
    for offered, used in zip(call.writes, reply.writes, strict=False):
        faults += _chunk_faults("Write chunk", offered, used)
    if reply.reply is not None:
        faults += _chunk_faults("Reply chunk", call.reply or (), reply.reply)
    if reply.kind == RDMA_NOMSG and reply.reply is None:
        faults.append("RDMA_NOMSG without a Reply chunk")
    if reply.reads:
        faults.append("Read list in a reply")
    return faults


def length_faults(call: Message, reply: Message, written: dict[Segment, int]) -> list[str]:
    """Returns the lengths in a reply that are not those of the RDMA Writes before it.

    A reply that is inline may return an unused Reply chunk as it came.
    """
    chunks = list(zip(call.writes, reply.writes, strict=False))
    if reply.kind == RDMA_NOMSG and reply.reply is not None:
        chunks.append((call.reply or (), reply.reply))
    return [
        f"R_key {theirs.handle:#x} claims {theirs.length} bytes, {written[mine]} were written"
        for offered, used in chunks
        for mine, theirs in zip(offered, used, strict=False)
        if theirs.length != written[mine]
    ]


def _chunk_faults(name: str, offered: tuple[Segment, ...], used: tuple[Segment, ...]) -> list[str]:
    if len(used) != len(offered):
        return [f"{name} of {len(used)} segments for {len(offered)} offered"]
    faults = []
    for mine, theirs in zip(offered, used, strict=True):
        if (mine.handle, mine.offset) != (theirs.handle, theirs.offset):
            faults.append(f"{name} names R_key {theirs.handle:#x}, offered {mine.handle:#x}")
        if theirs.length > mine.length:
            faults.append(f"{name} claims {theirs.length} bytes of {mine.length} offered")
    return faults


def check(frames: Iterable[Frame], *clients: str) -> Summary:
    """Checks a whole capture; `clients` are the requester's addresses."""
    return Checker(*clients).run(frames)
