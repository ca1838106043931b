# SPDX-License-Identifier: GPL-2.0
"""The wire check finds each kind of breach, on captures dissected by tshark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dissected
import pytest
from packets import CLIENT, SERVER, SERVER_QP, Cable, header, null_call, null_reply

from lab import capture, harness, wirecheck

WRITE_SEGMENT = (0x100, 4096, 0x7000_0000_0000)
READ_SEGMENT = (0x200, 8192, 0x6000_0000_0000)
REPLY_SEGMENT = (0x300, 2048, 0)


@pytest.fixture
def cable() -> Cable:
    return Cable()


def verdict(cable: Cable, path: Path) -> wirecheck.Summary:
    return wirecheck.check(capture.read(cable.save(path / "cable.pcap")), CLIENT)


def test_clean_exchange(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1, writes=[[WRITE_SEGMENT]]), null_call(1))
    cable.access(write=True, address=WRITE_SEGMENT[2], handle=0x100, length=1000)
    used = (0x100, 1000, WRITE_SEGMENT[2])
    cable.answer(header(1, writes=[[used]]), null_reply(1), invalidate=0x100)
    cable.call(header(2, reads=[(40, READ_SEGMENT)]), null_call(2))
    cable.access(write=False, address=READ_SEGMENT[2] + 4096, handle=0x200, length=4096)
    cable.answer(header(2), null_reply(2))
    summary = verdict(cable, tmp_path)
    assert summary.violations == []
    assert (summary.calls, summary.replies) == (2, 2)
    assert (summary.read_chunks, summary.write_chunks) == (1, 1)
    assert (summary.reads, summary.writes, summary.invalidates) == (1, 1, 1)
    assert summary.inline == 2 * len(null_call(1))
    assert summary.without_chunks == 0


@pytest.mark.parametrize(
    ("lengths", "expected"), [((4096,), 0), ((4093,), 0), ((4093, 3), 1), ((4093, 4093, 2), 1)]
)
def test_round_ups(cable: Cable, tmp_path: Path, lengths: tuple[int, ...], expected: int) -> None:
    reads = [(40, (0x200 + i, length, i << 16)) for i, length in enumerate(lengths)]
    cable.call(header(1, reads=reads), null_call(1))
    cable.call(header(2, reads=[(40, READ_SEGMENT), (60, (0x300, 3, 0))]), null_call(2))
    assert verdict(cable, tmp_path).round_ups == expected


def test_data_like_another_protocol(cable: Cable, tmp_path: Path) -> None:
    """Tshark takes data that begin with a type of Ethernet for a frame, here a malformed one."""
    cable.data(bytes.fromhex("8100 0000 0000 0000 0000 0000 0000 8100 0001 ed00") + bytes(44))
    frames = list(capture.read(cable.save(tmp_path / "cable.pcap")))
    assert any(frame.malformed for frame in frames)
    assert verdict(cable, tmp_path).violations == []


@pytest.mark.parametrize("by_client", [True, False])
def test_probe(cable: Cable, tmp_path: Path, by_client: bool) -> None:
    """Either side may send a Write of no bytes, which needs no memory."""
    cable.call(header(1), null_call(1))
    cable.access(write=True, address=0, handle=0, length=0, by_client=by_client)
    assert verdict(cable, tmp_path).violations == []
    cable.access(write=True, address=0, handle=0, length=1, by_client=by_client)
    fault = "by the requester" if by_client else "outside every advertised segment"
    assert fault in verdict(cable, tmp_path).violations[0]


def test_probe_by_the_responder(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.access(write=True, address=0, handle=0, length=0)
    assert verdict(cable, tmp_path).violations == []
    cable.access(write=True, address=0, handle=0, length=1)
    assert "outside every advertised" in verdict(cable, tmp_path).violations[0]


def test_credits_exceeded_before_first_reply(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.call(header(2), null_call(2))
    assert "2 calls in flight, 1 granted" in verdict(cable, tmp_path).violations[0]


def test_credits_within_grant(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.answer(header(1, grant=2), null_reply(1))
    for xid in (2, 3):
        cable.call(header(xid), null_call(xid))
    assert verdict(cable, tmp_path).violations == []
    cable.call(header(4), null_call(4))
    assert len(verdict(cable, tmp_path).violations) == 1


def test_lower_grant_crosses_calls(cable: Cable, tmp_path: Path) -> None:
    """A client that has not yet seen it uses the previous grant, for that number of calls."""
    cable.call(header(1), null_call(1))
    cable.answer(header(1, grant=3), null_reply(1))
    for xid in (2, 3, 4):
        cable.call(header(xid), null_call(xid))
    for xid in (2, 3):
        cable.answer(header(xid, grant=1), null_reply(xid))
        cable.call(header(xid + 3), null_call(xid + 3))
    assert verdict(cable, tmp_path).violations == []


def test_lower_grant_is_not_kept_to(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.answer(header(1, grant=2), null_reply(1))
    cable.call(header(2), null_call(2))
    cable.answer(header(2, grant=1), null_reply(2))
    for xid in (3, 4, 5):
        cable.call(header(xid), null_call(xid))
    (fault,) = verdict(cable, tmp_path).violations
    assert "3 calls in flight, 1 granted" in fault


def test_lower_grant_is_repeated(cable: Cable, tmp_path: Path) -> None:
    """A client that continues as before is found when it must have taken the first of them."""
    cable.call(header(1), null_call(1))
    cable.answer(header(1, grant=2), null_reply(1))
    for xid in (2, 3):
        cable.call(header(xid), null_call(xid))
    for xid in (2, 3, 4):
        cable.answer(header(xid, grant=1), null_reply(xid))
        cable.call(header(xid + 2), null_call(xid + 2))
    (fault,) = verdict(cable, tmp_path).violations
    assert "2 calls in flight, 1 granted" in fault


def test_wrong_version(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1, version=7), null_call(1))
    assert "a Send that is no message" in verdict(cable, tmp_path).violations[0]


def test_second_reply(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.answer(header(1), null_reply(1))
    cable.answer(header(1), null_reply(1))
    assert "without an unanswered call" in verdict(cable, tmp_path).violations[0]


@pytest.mark.parametrize(
    ("write", "address", "handle", "length"),
    [
        (True, WRITE_SEGMENT[2], 0x101, 8),  # an R_key nobody advertised
        (True, WRITE_SEGMENT[2] - 4, 0x100, 8),  # starts before the segment
        (True, WRITE_SEGMENT[2] + 4092, 0x100, 8),  # ends behind it
        (False, WRITE_SEGMENT[2], 0x100, 8),  # reads what was offered for writing
        (True, READ_SEGMENT[2], 0x200, 8),  # writes what was offered for reading
    ],
)
def test_access_outside(
    cable: Cable, tmp_path: Path, write: bool, address: int, handle: int, length: int
) -> None:
    offer = header(1, reads=[(40, READ_SEGMENT)], writes=[[WRITE_SEGMENT]])
    cable.call(offer, null_call(1))
    cable.access(write=write, address=address, handle=handle, length=length)
    assert "outside every advertised segment" in verdict(cable, tmp_path).violations[0]


def test_access_after_reply(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1, writes=[[WRITE_SEGMENT]]), null_call(1))
    cable.answer(header(1, writes=[[(0x100, 0, WRITE_SEGMENT[2])]]), null_reply(1))
    cable.access(write=True, address=WRITE_SEGMENT[2], handle=0x100, length=8)
    assert "outside every advertised segment" in verdict(cable, tmp_path).violations[0]


def test_reply_claims_too_much(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1, writes=[[WRITE_SEGMENT]], reply=[READ_SEGMENT]), null_call(1))
    more = (0x100, 4097, WRITE_SEGMENT[2])
    cable.answer(header(1, kind=1, writes=[[more]], reply=[READ_SEGMENT, READ_SEGMENT]))
    texts = " ".join(verdict(cable, tmp_path).violations)
    assert "claims 4097 bytes of 4096" in texts
    assert "Reply chunk of 2 segments for 1" in texts


def test_reply_chunk_never_offered(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.answer(header(1, kind=1, reply=[READ_SEGMENT]))
    assert "Reply chunk of 1 segments for 0" in verdict(cable, tmp_path).violations[0]


def test_reply_in_its_chunk(cable: Cable, tmp_path: Path) -> None:
    for xid, kind in ((1, 0), (2, 1)):
        cable.call(header(xid, reply=[REPLY_SEGMENT]), null_call(xid))
        message = null_reply(xid) if kind == 0 else b""
        if kind:
            handle, length, address = REPLY_SEGMENT
            cable.access(write=True, address=address, handle=handle, length=length)
        cable.answer(header(xid, kind=kind, reply=[REPLY_SEGMENT]), message)
    summary = verdict(cable, tmp_path)
    assert summary.violations == []
    assert (summary.reply_chunks, summary.long_replies) == (2, 1)


def test_invalidates_any_key_of_its_call(cable: Cable, tmp_path: Path) -> None:
    for xid, key in enumerate((0x100, 0x200, 0x300), 1):
        lists = {
            "reads": [(40, READ_SEGMENT)],
            "writes": [[WRITE_SEGMENT]],
            "reply": [REPLY_SEGMENT],
        }
        cable.call(header(xid, **lists), null_call(xid))
        unused = {"writes": [[(0x100, 0, WRITE_SEGMENT[2])]], "reply": [(0x300, 0, 0)]}
        cable.answer(header(xid, **unused), null_reply(xid), invalidate=key)
    summary = verdict(cable, tmp_path)
    assert summary.violations == []
    assert (summary.invalidates, summary.without_chunks) == (3, 0)


def test_invalidates_what_another_call_offered(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.answer(header(1, grant=2), null_reply(1))
    cable.call(header(2, reads=[(40, READ_SEGMENT)]), null_call(2))
    cable.call(header(3, writes=[[WRITE_SEGMENT]]), null_call(3))
    cable.answer(header(2, grant=2), null_reply(2), invalidate=0x100)
    (text,) = verdict(cable, tmp_path).violations
    assert "xid 0x2: invalidates R_key 0x100, which its call did not offer" in text


def test_invalidates_for_a_call_without_chunks(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.answer(header(1), null_reply(1), invalidate=0)
    summary = verdict(cable, tmp_path)
    assert "invalidates R_key 0x0, which its call did not offer" in summary.violations[0]
    assert (summary.invalidates, summary.without_chunks) == (1, 1)


def test_invalidates_the_same_key_twice(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1))
    cable.answer(header(1, grant=2), null_reply(1))
    for xid in (2, 3):
        cable.call(header(xid, reads=[(40, READ_SEGMENT)]), null_call(xid))
    cable.answer(header(2, grant=2), null_reply(2), invalidate=0x200)
    assert verdict(cable, tmp_path).violations == []
    cable.answer(header(3, grant=2), null_reply(3), invalidate=0x200)
    (text,) = verdict(cable, tmp_path).violations
    assert "xid 0x3: invalidates R_key 0x200, which an earlier reply has invalidated" in text


def test_a_key_that_is_offered_anew_may_be_invalidated_anew(cable: Cable, tmp_path: Path) -> None:
    for xid in (1, 2):
        cable.call(header(xid, reads=[(40, READ_SEGMENT)]), null_call(xid))
        cable.answer(header(xid), null_reply(xid), invalidate=0x200)
    summary = verdict(cable, tmp_path)
    assert summary.violations == []
    assert summary.invalidates == 2


def test_backward_call_that_invalidates(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1, reads=[(40, READ_SEGMENT)]), null_call(1))
    cable.answer(header(7), null_call(7), invalidate=0x200)
    (text,) = verdict(cable, tmp_path).violations
    assert "invalidates R_key 0x200 without an unanswered call" in text


def test_requester_that_invalidates(cable: Cable, tmp_path: Path) -> None:
    cable.call(header(1), null_call(1), invalidate=0x200)
    assert "by the requester" in verdict(cable, tmp_path).violations[0]


def test_a_queue_number_that_comes_back() -> None:
    """The client's device was removed and added; a call without an answer is sent once more."""
    frames = []
    # Queue of the server, XID, and whether it is answered.
    sent = [(10, 1, True), (10, 2, False), (11, 2, True), (11, 3, True)]
    for number, (queue, xid, answered) in enumerate(sent):
        call = capture.Message(xid=xid, version=1, credits=1, kind=0, direction=0)
        reply = capture.Message(xid=xid, version=1, credits=1, kind=0, direction=1)
        frames.append(capture.Frame(2 * number, CLIENT, 4, queue, 100 + number, call))
        if answered:
            frames.append(capture.Frame(2 * number + 1, "10.0.0.1", 4, 5, 200 + number, reply))
    summary = wirecheck.check(frames, CLIENT)
    assert summary.violations == []
    assert summary.replies == 3


@pytest.mark.parametrize("written", [0, 999, 1001])
def test_lengths_are_those_of_the_writes(cable: Cable, tmp_path: Path, written: int) -> None:
    cable.call(header(1, writes=[[WRITE_SEGMENT]]), null_call(1))
    cable.access(write=True, address=WRITE_SEGMENT[2], handle=0x100, length=written)
    cable.answer(header(1, writes=[[(0x100, 1000, WRITE_SEGMENT[2])]]), null_reply(1))
    (fault,) = verdict(cable, tmp_path).violations
    assert f"claims 1000 bytes, {written} were written" in fault


def test_lengths_of_memory_that_two_calls_share(cable: Cable, tmp_path: Path) -> None:
    """Nobody can tell for which of two calls a Write is, so only the third call counts."""
    handle, _, address = WRITE_SEGMENT
    cable.call(header(9), null_call(9))
    cable.answer(header(9), null_reply(9))
    for xid in (1, 2):
        cable.call(header(xid, writes=[[WRITE_SEGMENT]]), null_call(xid))
    for xid in (1, 2):
        cable.access(write=True, address=address, handle=handle, length=1000)
        cable.answer(header(xid, writes=[[(handle, 1000, address)]]), null_reply(xid))
    assert verdict(cable, tmp_path).violations == []
    cable.call(header(3, writes=[[WRITE_SEGMENT]]), null_call(3))
    cable.access(write=True, address=address, handle=handle, length=999)
    cable.answer(header(3, writes=[[(handle, 1000, address)]]), null_reply(3))
    (fault,) = verdict(cable, tmp_path).violations
    assert "claims 1000 bytes, 999 were written" in fault


def test_lengths_of_a_long_reply(cable: Cable, tmp_path: Path) -> None:
    """Several RDMA Writes add up, in each segment alone."""
    second = (0x301, 4096, 0x4_0000_0000)
    cable.call(header(1, reply=[REPLY_SEGMENT, second]), null_call(1))
    handle, _, address = REPLY_SEGMENT
    for offset in (0, 500):
        cable.access(write=True, address=address + offset, handle=handle, length=500)
    used = [(handle, 1000, address), (0x301, 8, second[2])]
    cable.access(write=True, address=second[2], handle=0x301, length=4)
    cable.answer(header(1, kind=1, reply=used))
    (fault,) = verdict(cable, tmp_path).violations
    assert "0x301 claims 8 bytes, 4 were written" in fault


def test_a_queue_number_of_the_server_that_comes_back() -> None:
    """The server's device was removed and added; an accepted connection starts afresh."""

    def accepts(connection: int) -> capture.Frame:
        return capture.Frame(0, SERVER, 4, 1, connection, accepts=(10, connection))

    def call(xid: int, sequence: int) -> capture.Frame:
        message = capture.Message(xid=xid, version=1, credits=1, kind=0, direction=0)
        return capture.Frame(xid, CLIENT, 4, 10, sequence, message, destination=SERVER)

    def reply(xid: int, queue: int) -> capture.Frame:
        message = capture.Message(xid=xid, version=1, credits=8, kind=0, direction=1)
        return capture.Frame(xid, SERVER, 4, queue, 200, message)

    # The manager repeats an answer that was not acknowledged; that is no new connection.
    first = [accepts(1), call(1, 100), accepts(1), reply(1, 5), call(2, 101)]
    second = [accepts(2), call(2, 100), reply(2, 6), call(3, 101), reply(3, 6)]
    summary = wirecheck.check([*first, *second[:3]], CLIENT)
    assert summary.violations == []
    assert (summary.calls, summary.replies) == (3, 2)
    assert wirecheck.check(first + second[1:], CLIENT).violations != []


def test_queue_numbers_of_several_devices() -> None:
    """The devices of a host number their queue pairs alike. Two connections are made at once."""
    ends = [(CLIENT, SERVER), ("10.0.0.102", "10.0.0.101")]
    accepted, calls, replies = [], [], []
    for n, (client, server) in enumerate(ends):
        call, reply = (
            capture.Message(xid=n, version=1, credits=1, kind=0, direction=direction)
            for direction in (0, 1)
        )
        accepted.append(capture.Frame(n, server, 100, 1, n, accepts=(17, n), destination=client))
        calls.append(capture.Frame(n, client, 4, 17, 100, call, destination=server))
        replies.append(capture.Frame(n, server, 4, 17, 200, reply, destination=client))
    frames = [accepted[0], calls[0], accepted[1], calls[1], *replies]
    summary = wirecheck.check(frames, *(client for client, _ in ends))
    assert summary.violations == []
    assert (summary.calls, summary.replies, summary.most_in_flight) == (2, 2, 1)


class Ends:
    """The frames of one connection between queue pairs of these numbers."""

    def __init__(self, client: int, server: int) -> None:
        """The two differ from those of other connections."""
        self._client, self._server = client, server

    def request(self) -> capture.Frame:
        """The client's request for the connection."""
        request = capture.Frame(0, CLIENT, 100, 1, self._client, destination=SERVER)
        return replace(request, handshake=self._client, requests=self._client)

    def accept(self) -> capture.Frame:
        """The server's answer to it."""
        answer = capture.Frame(0, SERVER, 100, 1, self._server, destination=CLIENT)
        return replace(answer, accepts=(self._server, 1), handshake=self._client)

    def call(self, xid: int) -> capture.Frame:
        """A call."""
        message = capture.Message(xid=xid, version=1, credits=1, kind=0, direction=0)
        return capture.Frame(1, CLIENT, 4, self._server, xid, message, destination=SERVER)

    def reply(self, xid: int) -> capture.Frame:
        """A reply."""
        message = capture.Message(xid=xid, version=1, credits=1, kind=0, direction=1)
        return capture.Frame(1, SERVER, 4, self._client, xid, message, destination=CLIENT)

    def write(self) -> capture.Frame:
        """An RDMA Write of the server."""
        access = capture.Access(write=True, address=0, handle=1, length=8)
        return capture.Frame(1, SERVER, 10, self._client, 9, access=access, destination=CLIENT)

    def other(self) -> capture.Frame:
        """A Send of the server that is no message."""
        return capture.Frame(1, SERVER, 4, self._client, 10, destination=CLIENT)

    def breaches(self) -> list[capture.Frame]:
        """Two calls too many, a reply without a call, and more."""
        return [*map(self.call, (1, 2, 3)), self.reply(8), self.write(), self.other()]


def test_a_capture_that_begins_late() -> None:
    """Only connections whose request and acceptance it has are checked, with all rules."""
    old, half, new = Ends(11, 21), Ends(12, 22), Ends(13, 23)
    frames = [*old.breaches(), half.accept(), *half.breaches(), new.request(), *old.breaches()]
    summary = wirecheck.check(frames, CLIENT, whole=False)
    assert (summary.violations, summary.calls) == ([], 0)
    # The client's new queue pair may have the number of one that a device took away.
    same = Ends(11, 24)
    frames += [new.accept(), *new.breaches(), same.request(), same.accept(), *old.breaches()]
    summary = wirecheck.check(frames, CLIENT, whole=False)
    assert summary.calls == 3
    for text in ("2 calls in flight", "3 calls in", "without an una", "outside every", "a Send"):
        assert sum(text in found for found in summary.violations) == 1, text
    assert len(summary.violations) == 5
    assert len(wirecheck.check(frames, CLIENT).violations) > 5


def test_captures_of_a_scenario(tmp_path: Path) -> None:
    """All are checked; a connection that is older than its capture is left out."""
    begun, late = Cable(), Cable()
    begun.frames += dissected.connected(b"", b"", SERVER_QP)
    for cable in (begun, late):
        for xid in (1, 2):
            cable.call(header(xid), null_call(xid))
    paths = [begun.save(tmp_path / "0"), late.save(tmp_path / "1"), begun.save(tmp_path / "2")]
    fault = "2 calls in flight, 1 granted"
    found = harness.wire_faults(paths, busy=True)
    assert [text.partition(": frame")[0] for text in found] == ["wire: cable-0", "wire: cable-2"]
    assert all(text.endswith(fault) for text in found)
    assert len(harness.wire_faults([paths[1]])) == 1
    empty = Cable().save(tmp_path / "empty")
    assert harness.wire_faults([empty, paths[1]]) == []
    assert "no call" in harness.wire_faults([empty, paths[1]], busy=True)[0]
    assert "no call" not in harness.wire_faults([empty, paths[2]], busy=True)[0]
    # Here the check itself leaves the older connection out.
    late.frames += dissected.connected(b"", b"", SERVER_QP + 1, 9)
    assert harness.wire_faults([empty, late.save(paths[1])]) == []


def test_what_captures_contain(cable: Cable, tmp_path: Path) -> None:
    path = tmp_path / "cable.pcap"

    def found() -> list[bool]:
        return [capture.contains(path, what) for what in (capture.ROCE, capture.REQUEST)]

    path.touch()
    assert found() == [False, False]
    cable.save(path)
    assert found() == [False, False]
    request, answer = dissected.connected(b"", b"", SERVER_QP)
    cable.frames.append(answer)
    cable.save(path)
    assert found() == [True, False]
    assert not capture.requests(path)
    cable.frames.append(request)
    cable.save(path)
    assert found() == [True, True]
    assert len(capture.requests(path)) == 1


def test_credits_of_the_backward_direction(cable: Cable, tmp_path: Path) -> None:
    """The server may have as many calls in flight as the client's last reply grants, two first."""
    cable.answer(header(1), null_call(1))
    cable.call(header(1, grant=3), null_reply(1))
    for xid in (2, 3, 4):
        cable.answer(header(xid), null_call(xid))
    assert verdict(cable, tmp_path).violations == []
    cable.answer(header(5), null_call(5))
    (fault,) = verdict(cable, tmp_path).violations
    assert "4 backward calls in flight, 3 granted" in fault


def test_backward_call_with_a_chunk(cable: Cable, tmp_path: Path) -> None:
    cable.answer(header(1, writes=[[WRITE_SEGMENT]]), null_call(1))
    (fault,) = verdict(cable, tmp_path).violations
    assert "backward call with a chunk" in fault
