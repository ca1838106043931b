# SPDX-License-Identifier: GPL-2.0
"""Checks of a capture against the rules of RPC-over-RDMA.

Follows RFC 8166: credits (section 3.3), chunk lists (3.4, 3.5), the responder's duties, the lengths
of what it has written, and the R_keys that it invalidates. terms.py has what version two adds. The
check of a connection needs all its frames from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .capture import PAYLOADS, SENDS, Access, Frame, Message, Queue, Segment
from .terms import (
    CALL,
    ERR_VERS,
    GENL,
    NAMES,
    NONE,
    RDMA_ERROR,
    RDMA_MSG,
    RDMA_NOMSG,
    RDMA_OPTIONAL,
    REPLY,
    Peer,
    Terms,
)


@dataclass
class Allowance:
    """How many calls a client may have unanswered.

    A lower grant binds a client when it has taken the reply. The calls that it sent before that
    follow the reply on the cable; they are no more than it was granted before.
    """

    calls: int = 1
    #: The latest grant, which may be lower.
    _granted: int = 1
    #: Calls that may still come from a client that does not know of it.
    _unaware: int = 0

    def grant(self, granted: int) -> None:
        """Notes the grant of a message of the responder."""
        if granted >= self.calls:
            self.calls, self._unaware = granted, 0
        elif granted != self._granted:
            self._unaware = self.calls
        self._granted = granted

    def call(self) -> int:
        """Notes a call. Returns how many may be unanswered, this one included."""
        if self._unaware == 0:
            self.calls = self._granted
        self._unaware = max(0, self._unaware - 1)
        return self.calls


@dataclass(eq=False)
class Connection:
    """The state of one connection's forward direction, as the packets show it."""

    allowance: Allowance = field(default_factory=Allowance)
    pending: dict[int, Message] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    #: R_keys that a reply has invalidated and that no call has offered since.
    invalidated: set[int] = field(default_factory=set)
    #: Bytes that RDMA Writes have put into a segment of an unanswered call, by XID and segment.
    written: dict[tuple[int, Segment], int] = field(default_factory=dict)
    #: Segments to whose memory a Write may have been one for another call, by XID and segment.
    shared: set[tuple[int, Segment]] = field(default_factory=set)
    terms: Terms = field(default_factory=Terms)
    #: Unanswered calls that were sent while the client had announced Remote Invalidation.
    invalidatable: set[int] = field(default_factory=set)

    def note(self, xid: int, segment: Segment, access: Access) -> None:
        """Adds the bytes of an RDMA Write."""
        if access.write:
            key = (xid, segment)
            self.written[key] = self.written.get(key, 0) + access.length

    def take_written(self, call: Message) -> dict[Segment, int | None]:
        """Removes and returns the bytes that were written for a call that is now answered.

        The number is None for memory that several calls shared.
        """
        taken: dict[Segment, int | None] = {}
        for one in advertised(call, write=True):
            key = (call.xid, one)
            count = self.written.pop(key, 0)
            taken[one] = None if key in self.shared else count
            self.shared.discard(key)
        return taken


@dataclass
class Backward:
    """The backward direction: calls of the server, by XID, and what each connection grants."""

    #: Calls before the first grant. The protocol has one; the stock server was seen to send two.
    FIRST = 2

    #: Open calls, and the client's queue pair that each went to.
    pending: dict[int, tuple[Queue, Message]] = field(default_factory=dict)
    grants: dict[Queue, int] = field(default_factory=dict)

    def call(self, queue: Queue, message: Message, terms: Terms | None) -> list[str]:
        """Notes a call of the server; returns its defects (RFC 8167, section 4)."""
        self.pending[message.xid] = (queue, message)
        flight = sum(other == queue for other, _ in self.pending.values())
        grant = self.grants.get(queue, self.FIRST)
        faults = []
        if flight > grant:
            faults.append(f"{flight} backward calls in flight, {grant} granted")
        support = terms.client.backward if terms and message.version == 2 else None
        if support == NONE:
            faults.append("backward call to a client that supports none")
        if support != GENL and (has_chunks(message) or message.kind != RDMA_MSG):
            faults.append("backward call with a chunk")
        return faults

    def answer(self, message: Message) -> bool:
        """Notes a reply of the client; returns whether it answers a backward call."""
        queue, _ = self.pending.pop(message.xid, (None, None))
        if queue is not None:
            self.grants[queue] = max(1, message.credits)
        return queue is not None

    def covers(self, access: Access) -> bool:
        """Returns whether an open call of version two offers the memory that the client accesses.

        Backward calls of version one have no chunks.
        """
        return any(
            segment.handle == access.handle and segment.covers(access.address, access.length)
            for _, call in self.pending.values()
            for segment in advertised(call, write=access.write)
        )


@dataclass
class Summary:
    """Counts of a capture's contents, which show a caller that the capture was not empty."""

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
    #: Segments that hold nothing but the XDR round-up of the Read chunk before them.
    round_ups: int = 0
    offered: int = 0
    used: int = 0
    #: Bytes of RPC messages behind the calls' headers; exact if each message is one packet.
    inline: int = 0
    invalidates: int = 0
    backward: int = 0
    most_in_flight: int = 0
    #: Calls in version two, its optional operations by name, and its longest message.
    version_two: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    longest: int = 0
    #: Calls that ERR_VERS answered, and those that were sent again in version one.
    refused: int = 0
    again: int = 0
    violations: list[str] = field(default_factory=list)


class Checker:
    """Goes through the frames in order and notes every breach of a rule."""

    def __init__(self, *clients: str, whole: bool = True) -> None:
        """Takes the addresses of the requester.

        `whole`: the capture begins before the connections it shows. Otherwise the check leaves out
        the connections whose request or acceptance is not in the capture.
        """
        self._clients, self._whole = clients, whole
        #: The queue pairs of both ends of the connections whose beginning is in the capture.
        self._begun: set[Queue] = set()
        self._connections: dict[Queue, Connection] = {}
        self._reply_queue: dict[Queue, Connection] = {}
        self._backward = Backward()
        self._seen: set[tuple[str, Queue, int, int]] = set()
        #: Queue pairs of accepted connections, with the responder's number for the connection.
        self._accepted: set[tuple[Queue, int]] = set()
        #: Requests, by the client's address and its number for the connection.
        self._requested: dict[tuple[str, int], Frame] = {}
        self.summary = Summary()

    def run(self, frames: Iterable[Frame]) -> Summary:
        """Checks all frames."""
        for frame in frames:
            if frame.accepts:
                queue, number = frame.accepts
                self._on_accept((frame.source, queue), number)
                self._on_request((frame.source, queue), frame)
                continue
            if frame.handshake is not None:
                self._requested[frame.source, frame.handshake] = frame
                continue
            # A repeated packet of an old connection may follow a new one with the same number.
            if self._retransmitted(frame) or self._left_out(frame):
                continue
            if frame.objection:
                self._violation(frame, frame.objection)
            if frame.message:
                self._on_message(frame, frame.message)
            # tshark guesses the protocol of a payload from its first bytes.
            elif frame.malformed and frame.opcode not in PAYLOADS:
                self._violation(frame, "malformed")
            elif frame.opcode in SENDS:
                self._violation(frame, "a Send that is no message")
            if frame.access:
                self._on_access(frame)
        return self.summary

    def _on_accept(self, queue: Queue, number: int) -> None:
        """Begins a connection: a device that was removed and added numbers queue pairs afresh."""
        if (queue, number) in self._accepted:
            return
        self._accepted.add((queue, number))
        old = self._connections.pop(queue, None)
        self._seen = {key for key in self._seen if key[1] != queue}
        for key in [key for key, one in self._reply_queue.items() if one is old]:
            del self._reply_queue[key]

    def _on_request(self, queue: Queue, answer: Frame) -> None:
        """Notes what the request of an accepted connection and its answer say.

        That is the client's queue pair, and the Receives of both peers, if they hold in version two
        from the beginning.
        """
        request = self._requested.get((answer.destination, answer.handshake or 0))
        if request is None:
            return
        if request.requests is not None:
            self._begun |= {queue, (request.source, request.requests)}
        if request.receive and answer.receive:
            connection = self._connections.setdefault(queue, Connection())
            connection.terms.begin(request.receive, answer.receive)

    def _left_out(self, frame: Frame) -> bool:
        """Returns whether the frame belongs to a connection whose beginning nobody has seen."""
        # Queue pairs 0 and 1 belong to the connection manager.
        return not self._whole and frame.queue > 1 and frame.receiver not in self._begun

    def _violation(self, frame: Frame, text: str) -> None:
        self.summary.violations.append(f"frame {frame.number}: {text}")

    def _retransmitted(self, frame: Frame) -> bool:
        """Returns whether the frame repeats a packet: a retransmission is not another message."""
        key = (frame.source, frame.receiver, frame.sequence, frame.opcode)
        if frame.opcode < 0 or key not in self._seen:
            self._seen.add(key)
            return False
        return True

    def _on_message(self, frame: Frame, message: Message) -> None:
        if message.version == 2:
            self.summary.longest = max(self.summary.longest, message.size)
        if message.operation:
            name = NAMES.get(message.operation.kind, str(message.operation.kind))
            self.summary.operations[name] = self.summary.operations.get(name, 0) + 1
        if frame.source in self._clients:
            self._from_client(frame, message)
        else:
            self._from_server(frame, message)

    def _faults(self, frame: Frame, message: Message, faults: list[str]) -> None:
        for text in faults:
            self._violation(frame, f"xid {message.xid:#x}: {text}")

    def _from_client(self, frame: Frame, message: Message) -> None:
        """Takes a call, a reply of the backward direction, or a message without an RPC."""
        if message.version != 2:
            if message.direction != 0 and self._backward.answer(message):
                return
            self._call(frame, message)
        elif message.direction == CALL and message.kind != RDMA_OPTIONAL:
            self._call(frame, message)
        else:
            self._not_a_call(frame, message)

    def _not_a_call(self, frame: Frame, message: Message) -> None:
        """Takes an optional operation of the client, a reply to a backward call, or an error."""
        connection = self._connections.setdefault(frame.receiver, Connection())
        terms = connection.terms
        self._faults(frame, message, terms.from_client(message))
        if message.kind == RDMA_OPTIONAL:
            queues = [queue for queue, one in self._reply_queue.items() if one is connection]
            if message.direction == REPLY:
                self._backward.grants |= dict.fromkeys(queues, max(1, message.credits))
            return
        answers = self._backward.answer(message)
        if not (answers or answers_operation(message, terms.server)):
            self._violation(frame, f"xid {message.xid:#x}: reply without a backward call")

    def _call(self, frame: Frame, message: Message) -> None:
        if frame.malformed:
            self._violation(frame, f"xid {message.xid:#x}: malformed call")
        if frame.invalidates is not None:
            self._violation(frame, f"xid {message.xid:#x}: Send With Invalidate by the requester")
        connection = self._connections.setdefault(frame.receiver, Connection())
        terms = connection.terms
        again = not terms.settled and message.xid == terms.refused_xid and message.version == 1
        self.summary.again += again
        self._faults(frame, message, terms.from_client(message))
        if terms.client.invalidation:
            connection.invalidatable.add(message.xid)
        if message.xid in connection.pending:
            self._violation(frame, f"xid {message.xid:#x}: sent again on the same connection")
        connection.pending[message.xid] = message
        connection.answered.discard(message.xid)
        connection.invalidated -= offered_keys(message)
        self._count_call(message)
        flight = len(connection.pending)
        self.summary.most_in_flight = max(self.summary.most_in_flight, flight)
        granted = connection.allowance.call()
        if flight > granted:
            text = f"{flight} calls in flight, {granted} granted"
            self._violation(frame, f"xid {message.xid:#x}: {text}")

    def _count_call(self, message: Message) -> None:
        self.summary.calls += 1
        self.summary.version_two += message.version == 2
        self.summary.without_chunks += not has_chunks(message)
        self.summary.read_chunks += bool(message.reads)
        self.summary.position_zero += any(position == 0 for position, _ in message.reads)
        self.summary.write_chunks += bool(message.writes)
        self.summary.reply_chunks += message.reply is not None
        self.summary.read_segments += len(message.reads)
        self.summary.round_ups += round_ups(message)
        self.summary.write_segments += sum(len(chunk) for chunk in message.writes)
        self.summary.reply_segments += len(message.reply or ())
        self.summary.offered += sum(s.length for s in advertised(message, write=True))
        self.summary.inline += message.size - message.header()

    def _from_server(self, frame: Frame, message: Message) -> None:
        one_way = message.kind == RDMA_OPTIONAL
        if one_way or (message.version == 2 and message.direction == CALL):
            self._without_call(frame, message)
            return
        connection = self._answering(frame.receiver, message.xid)
        if connection is None:
            self._without_call(frame, message)
            return
        call = connection.pending.pop(message.xid)
        self._faults(frame, message, connection.terms.from_server(message, call))
        self.summary.refused += message.kind == RDMA_ERROR and message.error == ERR_VERS
        connection.answered.add(message.xid)
        self.summary.replies += 1
        self.summary.long_replies += message.kind == RDMA_NOMSG
        self.summary.used += sum(s.length for s in advertised(message, write=True))
        self._on_invalidation(frame, connection, call)
        connection.invalidatable.discard(call.xid)
        # tshark cannot put placed data back into a READ's reply and calls that malformed.
        if frame.malformed and not message.writes:
            self._violation(frame, f"xid {message.xid:#x}: malformed reply")
        if message.credits == 0:
            self._violation(frame, f"xid {message.xid:#x}: grant of no credit")
        connection.allowance.grant(max(1, message.credits) if connection.terms.grants() else 1)
        written = connection.take_written(call)
        faults = answer_faults(call, message) + length_faults(call, message, written)
        self._faults(frame, message, faults)

    def _without_call(self, frame: Frame, message: Message) -> None:
        """Takes a message that answers no call.

        A backward call is legal, as are an optional operation and an error that answers one. A
        reply is not.
        """
        connection = self._reply_queue.get(frame.receiver)
        terms = connection.terms if connection else None
        two = message.version == 2
        if two:
            self._faults(frame, message, (terms or Terms()).from_server(message, None))
        if connection and two and message.kind == RDMA_OPTIONAL and message.direction == REPLY:
            connection.allowance.grant(max(1, message.credits))
        if message.kind == RDMA_OPTIONAL:
            pass
        elif message.direction == CALL:
            self.summary.backward += 1
            self._faults(frame, message, self._backward.call(frame.receiver, message, terms))
        elif not (two and terms and answers_operation(message, terms.client)):
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
        ready = call.xid in connection.invalidatable or connection.terms.client.invalidation
        if call.version == 2 and not ready:
            text = f"invalidates R_key {key:#x}; the client has not announced that it is ready"
            self._violation(frame, f"xid {call.xid:#x}: {text}")
        if key not in offered_keys(call):
            text = f"invalidates R_key {key:#x}, which its call did not offer"
            self._violation(frame, f"xid {call.xid:#x}: {text}")
        elif key in connection.invalidated:
            text = f"invalidates R_key {key:#x}, which an earlier reply has invalidated"
            self._violation(frame, f"xid {call.xid:#x}: {text}")
        connection.invalidated.add(key)

    def _answering(self, queue: Queue, xid: int) -> Connection | None:
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

    def _offers(self, access: Access) -> Iterator[tuple[Connection, Message, Segment]]:
        """Yields the segments of unanswered calls that offer the memory of an access."""
        for connection in self._connections.values():
            for call in connection.pending.values():
                for segment in advertised(call, write=access.write):
                    if segment.handle == access.handle and segment.covers(
                        access.address, access.length
                    ):
                        yield connection, call, segment

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
            if not self._backward.covers(access):
                self._violation(frame, "RDMA access by the requester")
            return
        found = list(self._offers(access))
        for connection, call, segment in found:
            if len(found) > 1:
                connection.shared.add((call.xid, segment))
            else:
                connection.note(call.xid, segment, access)
        if found:
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


def answers_operation(message: Message, peer: Peer) -> bool:
    """Returns whether a message is an error about an optional operation of this peer."""
    return message.kind == RDMA_ERROR and message.xid in peer.operations


def round_ups(call: Message) -> int:
    """Returns how many segments of a call complete a Read chunk to a multiple of four bytes."""
    found, total, chunk = 0, 0, -1
    for position, segment in call.reads:
        total, chunk = total if position == chunk else 0, position
        found += 0 < total % 4 == -segment.length % 4 and segment.length < 4
        total += segment.length
    return found


def has_chunks(message: Message) -> bool:
    """Returns whether any of the chunk lists has an entry."""
    return bool(message.reads or message.writes or message.reply is not None)


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


def length_faults(call: Message, reply: Message, written: dict[Segment, int | None]) -> list[str]:
    """Returns the lengths in a reply that are not those of the RDMA Writes before it.

    A reply that is inline may return an unused Reply chunk as it came. Memory that several calls
    shared does not count.
    """
    chunks = list(zip(call.writes, reply.writes, strict=False))
    if reply.kind == RDMA_NOMSG and reply.reply is not None:
        chunks.append((call.reply or (), reply.reply))
    return [
        f"R_key {theirs.handle:#x} claims {theirs.length} bytes, {written[mine]} were written"
        for offered, used in chunks
        for mine, theirs in zip(offered, used, strict=False)
        if written[mine] not in (None, theirs.length)
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


def check(frames: Iterable[Frame], *clients: str, whole: bool = True) -> Summary:
    """Checks a capture. `clients` are the requester's addresses; see `Checker` for `whole`."""
    return Checker(*clients, whole=whole).run(frames)
