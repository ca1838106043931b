# SPDX-License-Identifier: GPL-2.0
"""The terms of a connection, as its messages show them.

Follows draft-cel-nfsv4-rpcrdma-version-two-01 (order of the first messages, section 5) and
draft-dnoveck-nfsv4-rpcrdma-xcharext-01 (sizes of Receives and other characteristics). On a
connection that begins in version one only a change of the version is a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .capture import Message, Operation

RDMA_MSG, RDMA_NOMSG, RDMA_ERROR, RDMA_OPTIONAL = 0, 1, 4, 5
CALL, REPLY = 0, 1
ERR_VERS = 1
INIT, REQ, RESP, UPD = 1, 2, 3, 4
NAMES = {INIT: "INIT_XCHAR", REQ: "REQ_XCHAR", RESP: "RESP_XCHAR", UPD: "UPD_XCHAR"}
RECEIVE_SIZE, INVALIDATION, BACKWARD = 1, 2, 3
NONE, SZLIM, GENL = 1, 2, 3

#: Most bytes of the first message, and the least Receive of any peer.
FIRST_MAX = LEAST_RECEIVE = 1024
#: Bytes of a Receive of a peer that has announced nothing.
DEFAULT_RECEIVE = 4096


@dataclass
class Peer:
    """The announcements and the requests of one peer."""

    receive: int = DEFAULT_RECEIVE
    invalidation: bool = False
    backward: int = SZLIM
    #: Its operations that may be answered; of REQ_XCHAR those that are not answered, by XID.
    operations: set[int] = field(default_factory=set)
    asked: dict[int, Operation] = field(default_factory=dict)
    #: The size of the other's Receives that it has asked for and that is still pending.
    pending: int | None = None

    def keeps_to(self) -> list[int]:
        """Returns the sizes of messages to which its own requests limit it (section 3.1)."""
        values = [value for request in self.asked.values() for value in request.values]
        sizes = [size for which, size in values if which == RECEIVE_SIZE and size is not None]
        return sizes if self.pending is None else [*sizes, self.pending]


@dataclass(eq=False)
class Terms:
    """The version of a connection, and what both peers have announced."""

    client: Peer = field(default_factory=Peer)
    server: Peer = field(default_factory=Peer)
    #: The version of the latest first message, and whether a non-error reply has confirmed it.
    version: int = 0
    settled: bool = False
    #: A first message in version two has no reply yet.
    alone: bool = False
    #: The first message of all was in version two.
    tried: bool = False
    #: The versions in an ERR_VERS, and the XID that it answered.
    refused: tuple[int, int] | None = None
    refused_xid: int | None = None

    def begin(self, client: int, server: int) -> None:
        """Takes the sizes of both peers' Receives from private data that are about version two."""
        for peer, size in ((self.client, client), (self.server, server)):
            peer.receive = max(DEFAULT_RECEIVE, size)

    def from_client(self, message: Message) -> list[str]:
        """Takes a message of the client; returns its defects."""
        if self.settled:
            return self._agreed(message, by_client=True)
        if not self.version:
            self.tried = message.version == 2
        if not self.tried:
            self.version = self.version or message.version
            return self._version_faults(message)
        if self.alone:
            return ["a second message before the reply to the first one"]
        self.version, self.alone = message.version, True
        faults = _first_faults(message) if message.version == 2 else []
        if self.refused and not self.refused[0] <= message.version <= self.refused[1]:
            faults.append(f"version {message.version} after ERR_VERS {self.refused}")
        return faults

    def from_server(self, message: Message, call: Message | None) -> list[str]:
        """Takes a message of the server, with the call that it answers, if it answers one."""
        if message.kind == RDMA_ERROR:
            self.alone = False
            if message.error == ERR_VERS and call:
                self.refused, self.refused_xid = message.versions, call.xid
            return self._agreed(message, by_client=False) if self.settled else []
        if not call:
            if message.version == 2 and not self.settled:
                return ["a message of version two before the first reply"]
            return self._agreed(message, by_client=False)
        faults = []
        if message.version != call.version:
            faults.append(f"reply in version {message.version} to a call in {call.version}")
        self.settled, self.alone = True, False
        return faults + self._agreed(message, by_client=False)

    def grants(self) -> bool:
        """Returns whether the grant of the latest message counts: an error's first does not."""
        return self.settled or not self.tried

    def limit(self, *, by_client: bool) -> int:
        """Returns the most bytes that one peer may send."""
        mine, other = self._peers(by_client)
        return min([other.receive, *mine.keeps_to()])

    def _peers(self, by_client: bool) -> tuple[Peer, Peer]:
        return (self.client, self.server) if by_client else (self.server, self.client)

    def _version_faults(self, message: Message) -> list[str]:
        # An error repeats the version of the message that it answers.
        if message.version == self.version or message.kind == RDMA_ERROR:
            return []
        return [f"version {message.version} on a connection of version {self.version}"]

    def _agreed(self, message: Message, *, by_client: bool) -> list[str]:
        """Checks a message by the current terms, and applies its changes."""
        faults = self._version_faults(message)
        if message.version != 2:
            return faults
        limit = self.limit(by_client=by_client)
        if message.size > limit:
            faults.append(f"{message.size} bytes sent, at most {limit} announced")
        if message.operation:
            faults += self._operate(message, message.operation, by_client)
        elif message.kind == RDMA_ERROR:
            _, other = self._peers(by_client)
            other.asked.pop(message.xid, None)
        return faults

    def _operate(self, message: Message, operation: Operation, by_client: bool) -> list[str]:
        mine, other = self._peers(by_client)
        if operation.kind == RESP:
            return _on_answer(mine, other, message.xid, operation)
        mine.operations.add(message.xid)
        if operation.kind == REQ:
            mine.asked[message.xid] = operation
            return []
        faults = [fault for value in operation.values for fault in _announce(mine, other, *value)]
        if operation.kind == UPD and operation.cleared:
            other.pending = None
        return faults


def _first_faults(message: Message) -> list[str]:
    """Checks a message that finds out whether the server knows version two (section 5)."""
    faults = []
    if message.kind not in (RDMA_MSG, RDMA_NOMSG) or message.direction != CALL:
        faults.append("the first message is no call")
    if message.size > FIRST_MAX:
        faults.append(f"the first message has {message.size} bytes, at most {FIRST_MAX} may be")
    return faults


def _announce(mine: Peer, other: Peer, which: int, value: int | None) -> list[str]:
    """Takes a characteristic that a peer announces for itself."""
    faults = []
    if which == RECEIVE_SIZE and value is not None:
        if value < mine.receive and (other.pending is None or value < other.pending):
            faults.append(f"lowers its Receives to {value} bytes without a request")
        if value < LEAST_RECEIVE:
            faults.append(f"announces Receives of {value} bytes")
    _set(mine, which, value)
    return faults


def _set(mine: Peer, which: int, value: int | None) -> None:
    if value is None:
        return
    if which == INVALIDATION:
        mine.invalidation = value == 1
    elif which == BACKWARD:
        mine.backward = value
    elif which == RECEIVE_SIZE:
        mine.receive = value


def _on_answer(mine: Peer, other: Peer, xid: int, answer: Operation) -> list[str]:
    """Takes the answer of a peer to a request of the other."""
    request = other.asked.pop(xid, None)
    if request is None:
        return ["RESP_XCHAR without a request"]
    subsets = (answer.done, answer.rejected, answer.pending)
    every = sorted(element for subset in subsets for element in subset)
    faults = []
    if every != list(range(len(request.values))):
        faults.append(f"RESP_XCHAR names elements {every} of {len(request.values)}")
    for number, (which, value) in enumerate(request.values):
        if number in answer.done:
            _set(mine, which, value)
        if which == RECEIVE_SIZE and number not in answer.rejected:
            other.pending = value if number in answer.pending else None
    return faults
