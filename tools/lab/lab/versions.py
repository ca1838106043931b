# SPDX-License-Identifier: GPL-2.0
"""Which version of RPC-over-RDMA is in use: settings, the memory of peers, and captures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import capture, hostile, settings, wirecheck
from .capture import Message
from .fixtures import Tunables
from .pair import CLIENT_ADDRESSES, Guest, Pair

#: The client's record of the versions of servers; any write clears it.
PEERS = "/sys/kernel/debug/rpcrdma/peers"
#: The highest version that a server of ours serves.
MAX_VERSION = "svc_rdma/max_version"
#: Seconds for which a server is known.
EXPIRY = 600
#: The beginning of each format of private data.
FIRST_FORMAT, SECOND_FORMAT = bytes.fromhex("f6ab0e1801"), bytes.fromhex("b542a32c01")
#: Both versions, in the second format, with sizes that hold in both.
BOTH = SECOND_FORMAT + bytes((1, 1, 2))


def limit(server: Tunables, highest: int) -> None:
    """Makes the server serve no version above `highest`, which a stock server does anyway."""
    if settings.server() == "ours":
        server.set(**{MAX_VERSION: highest})
    else:
        assert highest == 1, "a stock server serves version one only"


@dataclass(frozen=True)
class Known:
    """The client's record of one server."""

    address: str
    port: int
    #: ``version-1`` or ``doubt``.
    verdict: str
    #: Seconds until this is forgotten.
    left: int


def peers(client: Guest) -> list[Known]:
    """Returns the client's record of servers."""
    lines = [line.split() for line in client.read(PEERS).splitlines()]
    return [Known(words[1], int(words[2]), words[3], int(words[4])) for words in lines]


def forget(client: Guest) -> None:
    """Clears the client's record of servers."""
    client.sh(f"echo 1 > {PEERS}")
    assert peers(client) == []


@dataclass(frozen=True)
class Sent:
    """One message of a capture."""

    by_client: bool
    #: The queue pair that it went to.
    queue: int
    message: Message


class Exchange:
    """The messages of a capture in order, and the result of the check of all captures."""

    def __init__(self, pcap: Path, *, whole: bool = True) -> None:
        """Dissects a capture, and checks it; see `wirecheck.Checker` for `whole`."""
        frames = capture.read(pcap)
        self.summary = wirecheck.check(frames, *CLIENT_ADDRESSES, whole=whole)
        self.sent: list[Sent] = []
        seen = set()
        for frame in frames:
            key = (frame.source, frame.queue, frame.sequence, frame.opcode)
            if frame.message and key not in seen:
                seen.add(key)
                by_client = frame.source in CLIENT_ADDRESSES
                self.sent.append(Sent(by_client, frame.queue, frame.message))

    @property
    def calls(self) -> list[Message]:
        """The messages of the client."""
        return [one.message for one in self.sent if one.by_client]

    @property
    def answers(self) -> list[Message]:
        """The messages of the server."""
        return [one.message for one in self.sent if not one.by_client]

    @property
    def versions(self) -> set[int]:
        """The versions that occur."""
        return {one.message.version for one in self.sent}

    def probes(self) -> list[Message]:
        """Returns the messages of version two that the client has sent."""
        return [message for message in self.calls if message.version == 2]


#: A hostile server ends when this file exists.
_STOP = "/run/misversions.stop"


@contextmanager
def hostile_server(pair: Pair, way: str, private: str = "one") -> Iterator[dict[str, Any]]:
    """Has guest/misversions.py in the server's place inside the block.

    `private`: ``both`` if it says that it knows both versions. The dictionary is empty inside the
    block, and has afterwards what the server has seen.
    """
    pid = hostile.take_port(pair, way, private, program="misversions.py")
    seen: dict[str, Any] = {}
    try:
        yield seen
    finally:
        try:
            pair.server.sh(f"touch {_STOP}")
            text = hostile.finish(pair, pid, 60)
        finally:
            hostile.return_port(pair)
    seen.update(json.loads(text.splitlines()[-1]))
    print(seen)
