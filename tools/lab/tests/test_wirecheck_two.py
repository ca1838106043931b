# SPDX-License-Identifier: GPL-2.0
"""The wire check finds each breach of version two, on captures dissected by tools/wireshark."""

from __future__ import annotations

from pathlib import Path

import dissected
import pytest
from packets import (
    CLIENT,
    SERVER_QP,
    Cable,
    error,
    header,
    null_call,
    null_reply,
    optional,
    subset,
    value,
    values,
)

from lab import capture, wirecheck
from lab.terms import CALL, INIT, REPLY, REQ, RESP, UPD

SEGMENT = (0x100, 4096, 0x7000_0000_0000)


class Link(Cable):
    """A cable with messages of version two. The first exchange settles the version."""

    xid = 100

    def settle(self) -> Link:
        """Adds the first call and its reply."""
        self.ask(1)
        self.reply(1)
        return self

    def ask(self, xid: int, size: int = 72, **more: object) -> None:
        """Adds a call of `size` bytes, header included."""
        head = header(xid, version=2, **more) + null_call(xid)
        self.call(head + bytes(size - len(head) if size > len(head) else 0))

    def reply(self, xid: int, size: int = 56, **more: object) -> None:
        """Adds a reply of `size` bytes, header included."""
        invalidate = more.pop("invalidate", None)
        head = header(xid, version=2, direction=REPLY, **more) + null_reply(xid)
        fill = bytes(size - len(head) if size > len(head) else 0)
        self.answer(head + fill, invalidate=invalidate)

    def from_client(self, kind: int, data: bytes, xid: int = 0) -> int:
        """Adds an operation of the client. Returns its XID."""
        self.xid += 1
        direction = REPLY if kind == RESP else CALL
        self.call(optional(xid or self.xid, kind, data, direction=direction))
        return self.xid

    def from_server(self, kind: int, data: bytes, xid: int = 0, grant: int = 32) -> int:
        """Adds an operation of the server. Returns its XID."""
        self.xid += 1
        direction = CALL if kind == REQ else REPLY
        self.answer(optional(xid or self.xid, kind, data, direction=direction, grant=grant))
        return self.xid

    def respond(self, xid: int, *subsets: tuple[int, ...], by_client: bool = False) -> None:
        """Adds RESP_XCHAR: the elements that are done, rejected and pending."""
        data = b"".join(subset(*elements) for elements in subsets)
        (self.from_client if by_client else self.from_server)(RESP, data, xid)


def update(name: str, number: int, *, cleared: bool = False) -> bytes:
    return value(name, number) + int(cleared).to_bytes(4, "big")


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def settled() -> Link:
    return Link().settle()


def verdict(link: Link, path: Path) -> wirecheck.Summary:
    return wirecheck.check(capture.read(link.save(path / "cable.pcap")), CLIENT)


def faults(link: Link, path: Path) -> list[str]:
    """Returns the violations without the numbers of their frames."""
    return [text.split(": ", 1)[1] for text in verdict(link, path).violations]


#: Private data of both formats: the two sizes, and whether they hold in version two.
PRIVATE = "f6ab0e180101{:02x}{:02x}b542a32c01{:02x}0102"


def handshake(link: Link, holds: tuple[int, int] = (1, 1)) -> None:
    """Has a client with Receives of 16384 bytes connect to a server with 8192 bytes."""
    client, server = (PRIVATE.format(one, one, s) for one, s in zip((15, 7), holds, strict=True))
    link.frames += dissected.connected(bytes.fromhex(client), bytes.fromhex(server), SERVER_QP)


def test_sizes_in_private_data(link: Link, tmp_path: Path) -> None:
    """The sizes hold from the first reply on, but for the first call, and not beyond."""
    handshake(link)
    link.ask(1, 1024)
    link.reply(1, 16384)
    link.ask(2, 8192)
    link.reply(2)
    assert faults(link, tmp_path) == []
    link.ask(3, 8196)
    link.reply(3, 16388)
    assert faults(link, tmp_path) == [
        "xid 0x3: 8196 bytes sent, at most 8192 announced",
        "xid 0x3: 16388 bytes sent, at most 16384 announced",
    ]


@pytest.mark.parametrize("holds", [(0, 1), (1, 0)])
def test_sizes_of_version_one(link: Link, tmp_path: Path, holds: tuple[int, int]) -> None:
    handshake(link, holds)
    link.settle().ask(2, 8192)
    link.reply(2)
    assert faults(link, tmp_path) == ["xid 0x2: 8192 bytes sent, at most 4096 announced"]


def test_clean(settled: Link, tmp_path: Path) -> None:
    """All that version two adds, as it should be."""
    settled.from_client(INIT, values(receive=16384, invalidation=1, backward=3) + subset(1))
    settled.from_server(INIT, values(receive=32768) + subset())
    settled.ask(2, 4096, writes=[[SEGMENT]])
    settled.reply(2, 16384, writes=[[(0x100, 0, SEGMENT[2])]], invalidate=0x100)
    settled.ask(3, 32768)
    settled.reply(3)
    xid = settled.from_client(REQ, values(receive=2048))
    settled.ask(4, 2048)
    settled.respond(xid, (0,), (), ())
    settled.reply(4)
    settled.from_server(UPD, update("receive", 4096))
    settled.ask(5, 4096)
    settled.answer(error(settled.from_client(77, b""), 3))
    settled.reply(5)
    summary = verdict(settled, tmp_path)
    assert summary.violations == []
    assert (summary.calls, summary.version_two, summary.replies) == (5, 5, 5)
    assert summary.operations == {
        "INIT_XCHAR": 2,
        "REQ_XCHAR": 1,
        "RESP_XCHAR": 1,
        "UPD_XCHAR": 1,
        "77": 1,
    }
    assert (summary.longest, summary.refused, summary.invalidates) == (32768, 0, 1)


def test_first_message(link: Link, tmp_path: Path) -> None:
    link.ask(1, 1024)
    assert faults(link, tmp_path) == []


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        (header(1, version=2) + null_call(1) + bytes(956), "has 1028 bytes, at most 1024"),
        (optional(1, INIT, values() + subset()), "the first message is no call"),
        (header(1, version=2, direction=REPLY) + null_reply(1), "the first message is no call"),
    ],
    ids=["long", "operation", "reply"],
)
def test_first_message_faults(link: Link, tmp_path: Path, first: bytes, fault: str) -> None:
    link.call(first)
    assert fault in faults(link, tmp_path)[0]


def test_second_message_before_the_first_reply(link: Link, tmp_path: Path) -> None:
    link.ask(1)
    link.from_client(INIT, values() + subset())
    (fault,) = faults(link, tmp_path)
    assert "a second message before the reply" in fault


def test_operation_of_the_server_before_the_first_reply(link: Link, tmp_path: Path) -> None:
    link.ask(1)
    link.from_server(INIT, values() + subset())
    (fault,) = faults(link, tmp_path)
    assert "version two before the first reply" in fault


@pytest.mark.parametrize("by", [1, 2])
def test_refused(link: Link, tmp_path: Path, by: int) -> None:
    """ERR_VERS of a server of either version; the same XID again, in version one."""
    link.ask(1)
    link.answer(error(1, 1, 1, by, version=2))
    link.call(header(1), null_call(1))
    link.answer(header(1), null_reply(1))
    for xid in (2, 3):
        link.call(header(xid), null_call(xid))
    summary = verdict(link, tmp_path)
    assert summary.violations == []
    assert (summary.refused, summary.again, summary.version_two) == (1, 1, 1)


def test_calls_on_the_grant_of_an_error(link: Link, tmp_path: Path) -> None:
    """The grant of an error does not count before the first reply that is none."""
    link.ask(1)
    link.answer(error(1, 1, 1, 1, grant=32))
    for xid in (1, 2):
        link.call(header(xid), null_call(xid))
    found = faults(link, tmp_path)
    assert "a second message before the reply" in found[0]
    assert "2 calls in flight, 1 granted" in found[1]


def test_version_outside_the_range(link: Link, tmp_path: Path) -> None:
    link.ask(1)
    link.answer(error(1, 1, 1, 1))
    link.ask(1)
    (fault,) = faults(link, tmp_path)
    assert "version 2 after ERR_VERS (1, 1)" in fault


def test_version_changes(settled: Link, tmp_path: Path) -> None:
    settled.call(header(2), null_call(2))
    settled.answer(header(2, version=2, direction=REPLY) + null_reply(2))
    found = faults(settled, tmp_path)
    assert "version 1 on a connection of version 2" in found[0]
    assert "reply in version 2 to a call in 1" in found[1]


def test_version_two_after_one(link: Link, tmp_path: Path) -> None:
    link.call(header(1), null_call(1))
    link.answer(header(1), null_reply(1))
    link.ask(2)
    (fault,) = faults(link, tmp_path)
    assert "version 2 on a connection of version 1" in fault


@pytest.mark.parametrize(("size", "good"), [(4096, True), (4100, False)])
def test_sizes_without_announcement(settled: Link, tmp_path: Path, size: int, good: bool) -> None:
    settled.ask(2, size)
    settled.reply(2, size)
    want = [] if good else [f"xid 0x2: {size} bytes sent, at most 4096 announced"] * 2
    assert faults(settled, tmp_path) == want


def test_sizes_of_messages_in_several_packets(settled: Link, tmp_path: Path) -> None:
    """The whole message counts. Each peer has announced for what it receives."""
    settled.from_server(INIT, values(receive=8192) + subset())
    for xid, size in ((2, 8192), (3, 8196)):
        settled.in_parts(CLIENT, header(xid, version=2) + null_call(xid) + bytes(size - 72), 1024)
        settled.reply(xid, 4100)
    want = ["4100 bytes sent, at most 4096", "8196 bytes sent, at most 8192", "4100 bytes sent"]
    found = faults(settled, tmp_path)
    assert [text in fault for text, fault in zip(want, found, strict=True)] == [True] * 3


def test_a_request_binds_its_sender_at_once(settled: Link, tmp_path: Path) -> None:
    xid = settled.from_client(REQ, values(receive=2048))
    settled.ask(2, 2052)
    settled.respond(xid, (), (0,), ())
    settled.reply(2)
    settled.ask(3, 4096)
    (fault,) = faults(settled, tmp_path)
    assert "2052 bytes sent, at most 2048 announced" in fault


def test_a_request_that_is_not_supported(settled: Link, tmp_path: Path) -> None:
    settled.answer(error(settled.from_client(REQ, values(receive=2048)), 3))
    settled.ask(2, 4096)
    settled.reply(2)
    settled.answer(error(9, 3))
    (fault,) = faults(settled, tmp_path)
    assert "reply without an unanswered call" in fault


def test_errors_of_the_client(settled: Link, tmp_path: Path) -> None:
    settled.call(error(settled.from_server(77, b""), 3))
    assert faults(settled, tmp_path) == []
    settled.call(error(9, 3))
    (fault,) = faults(settled, tmp_path)
    assert "reply without a backward call" in fault


def test_grants_of_operations(settled: Link, tmp_path: Path) -> None:
    """Those in direction REPLY bring a grant, for calls in the other direction."""
    settled.from_server(INIT, values() + subset(), grant=33)
    xid = settled.from_server(REQ, values(receive=8192), grant=99)
    settled.respond(xid, (0,), (), (), by_client=True)
    settled.answer(header(2, version=2, grant=99), null_call(2))
    for number in range(34):
        settled.ask(2 + number)
    (fault,) = faults(settled, tmp_path)
    assert "34 calls in flight, 33 granted" in fault


def test_a_request_that_stays_pending(settled: Link, tmp_path: Path) -> None:
    """The server asks the client: it keeps to the size until the update, which may be larger."""
    settled.from_client(INIT, values(receive=16384) + subset())
    xid = settled.from_server(REQ, values(invalidation=0, receive=2048))
    settled.respond(xid, (0,), (), (1,), by_client=True)
    for xid, size in ((2, 2048), (3, 2052)):
        settled.ask(xid)
        settled.reply(xid, size)
    settled.from_client(UPD, update("receive", 3000, cleared=True))
    for xid, size in ((4, 3000), (5, 3004)):
        settled.ask(xid)
        settled.reply(xid, size)
    found = faults(settled, tmp_path)
    assert "2052 bytes sent, at most 2048" in found[0]
    assert "3004 bytes sent, at most 3000" in found[1]
    assert len(found) == 2


@pytest.mark.parametrize(
    ("kind", "data", "fault"),
    [
        (INIT, values(receive=4092) + subset(), "lowers its Receives to 4092 bytes"),
        (UPD, update("receive", 4092), "lowers its Receives to 4092 bytes"),
        (INIT, values(receive=1020) + subset(), "announces Receives of 1020 bytes"),
        (RESP, subset() * 3, "RESP_XCHAR without a request"),
    ],
)
def test_announcements(settled: Link, tmp_path: Path, kind: int, data: bytes, fault: str) -> None:
    settled.from_server(kind, data)
    assert fault in faults(settled, tmp_path)[-1]


@pytest.mark.parametrize(
    "subsets", [((0,), (), ()), ((0, 1), (1,), ()), ((0, 1, 2), (), ())], ids=str
)
def test_incomplete_answer(
    settled: Link, tmp_path: Path, subsets: tuple[tuple[int, ...], ...]
) -> None:
    xid = settled.from_client(REQ, values(receive=8192, backward=3))
    settled.respond(xid, *subsets)
    (fault,) = faults(settled, tmp_path)
    assert "RESP_XCHAR names elements" in fault


@pytest.mark.parametrize("withdrawn", [False, True])
def test_invalidation(settled: Link, tmp_path: Path, withdrawn: bool) -> None:
    """It has to be announced, and replies to earlier calls may still invalidate after an end."""
    for xid in (2, 3):
        settled.ask(xid, reads=[(40, SEGMENT)])
        settled.reply(xid, invalidate=0x100)
        if xid == 2:
            settled.from_client(UPD, update("invalidation", 1))
    if withdrawn:
        settled.ask(4, reads=[(40, SEGMENT)])
        settled.from_client(UPD, update("invalidation", 0))
        settled.reply(4, invalidate=0x100)
    (fault,) = faults(settled, tmp_path)
    assert "xid 0x2: invalidates R_key 0x100; the client has not announced" in fault


@pytest.mark.parametrize(
    ("support", "fault"),
    [(3, ""), (2, "backward call with a chunk"), (1, "to a client that supports none")],
)
def test_backward_calls_with_chunks(
    settled: Link, tmp_path: Path, support: int, fault: str
) -> None:
    """The client serves them, so it writes; only memory of an open call is accessible to it."""
    settled.from_client(INIT, values(backward=support) + subset())
    settled.answer(header(1, version=2, writes=[[SEGMENT]]), null_call(1))
    settled.access(write=True, address=SEGMENT[2], handle=0x100, length=8, by_client=True)
    settled.call(header(1, version=2, direction=REPLY, writes=[[SEGMENT]]) + null_reply(1))
    settled.access(write=True, address=SEGMENT[2], handle=0x100, length=8, by_client=True)
    found = faults(settled, tmp_path)
    assert found[-1] == "RDMA access by the requester"
    assert [fault in text for text in found[:1] if fault] == [True] * bool(fault)
    assert len(found) == 1 + bool(fault) + (support == 1)


def test_xids_of_both_directions(settled: Link, tmp_path: Path) -> None:
    """The header has the direction, so equal XIDs do not confuse the check."""
    settled.ask(2)
    settled.answer(header(2, version=2), null_call(2))
    settled.call(header(2, version=2, direction=REPLY) + null_reply(2))
    settled.reply(2)
    assert faults(settled, tmp_path) == []
    settled.call(header(2, version=2, direction=REPLY) + null_reply(2))
    (fault,) = faults(settled, tmp_path)
    assert "reply without a backward call" in fault


def test_objections_of_the_dissector(settled: Link, tmp_path: Path) -> None:
    settled.call(header(2, version=2), null_call(3))
    settled.reply(2)
    settled.from_client(UPD, update("backward", 4))
    found = faults(settled, tmp_path)
    assert "breach: XID of the RPC message differs" in found[0]
    assert "malformed: 4 is no value of Backward Request Support" in found[1]
