# SPDX-License-Identifier: GPL-2.0
"""Tests of ``nfsrdma trace`` on a server: its events, calls, and their words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake import FakeHost
from nfsrdma.trace import calls, command
from nfsrdma.trace.call_words import tell
from nfsrdma.trace.calls import Call, Calls
from nfsrdma.trace.events import Event, parse
from recorded import GETATTR, READ, SERVED_CALLS, lines, server_lines

from nfsrdma import cli

RECORDED = (Path(__file__).parent / "served.trace").read_text().splitlines()


def _feed(events: list[Event]) -> tuple[list[Call], Calls]:
    """Returns the calls that events complete, and where they come from."""
    known = Calls()
    done = [known.feed(event) for event in events]
    return [call for call in done if call], known


def _events(*entries: tuple[int, int, str]) -> list[Event]:
    return list(parse(server_lines(entries)))


def test_recording_of_a_kernel() -> None:
    """Lines of a guest of the lab: each call is found with all its events."""
    events = list(parse(RECORDED))
    done, known = _feed(events)
    assert known.unfinished() == []
    assert known.others == []
    told = {call.operations[-1]: (call.form, call.read_bytes, call.written_bytes) for call in done}
    assert told == {
        "GETATTR": ("inline, inline", 0, 0),
        "READ": ("inline, write chunk", 0, 65536),
        "WRITE": ("read chunk, inline", 65536, 0),
        "READDIR": ("inline, reply chunk", 0, 35512),
        "SETATTR": ("long call, inline", 8176, 0),
    }
    assert [call.xid for call in done][:2] == [0x7F058AD3, 0x81058AD3]
    # The module also traces that the memory of chunks is free, which no line shows.
    released = sum(event.name == "svcrdma_cc_release" for event in events)
    assert sum(len(call.events) for call in done) == len(events) - released


def _told(operation: str) -> list[str]:
    (call,) = (call for call in _feed(list(parse(RECORDED)))[0] if call.operations[-1] == operation)
    return tell(call)


def test_read_in_words() -> None:
    assert _told("READ") == [
        "nfsd v4 COMPOUND (SEQUENCE PUTFH READ) of 10.0.0.2, xid 0x81058ad3: 5.12 ms",
        "          0 us  arrives in a message of 228 bytes",
        "        480 us  comes inline (RDMA_MSG of version 1), behind a header of 52 bytes; the"
        " client asks for 128 credits",
        "        514 us  offers room for 65536 bytes in segment 0 of a write chunk or reply chunk"
        " (R_key 0x0000225f)",
        "        570 us  is handed to nfsd, 176 bytes",
        "        659 us  is processed by nfsd v4 as COMPOUND",
        "       1685 us  operation 1 of 3, SEQUENCE, is done",
        "       1781 us  operation 2 of 3, PUTFH, is done",
        "       3868 us  operation 3 of 3, READ, is done",
        "       3922 us  has its reply, 65640 bytes, 65536 of them in pages",
        "       3931 us  was processed in 3.36 ms",
        "       4373 us  gets 65536 bytes of its reply in segment 0 (R_key 0x0000225f)",
        "       4478 us  has a header of 52 bytes, with 104 bytes of the reply behind it",
        "       5098 us  posts the RDMA Writes to the write chunk (work requests: 1)",
        "       5120 us  the reply is sent, and invalidates R_key 0x0000225f",
        "       9924 us  the RDMA Writes and the Send are known to have completed",
    ]


def test_write_in_words() -> None:
    told = "\n".join(_told("WRITE"))
    for words in (
        "offers 65536 bytes in segment 0 of a read chunk at position 180 (R_key 0x00002260)",
        "posts the RDMA Reads (work requests: 1)",
        "the RDMA Reads have read 65536 bytes in 15.08 ms",
        "is taken, with what was read, by nfsd-126",
        "is handed to nfsd, 65716 bytes, 65536 of them in pages",
        "the reply is sent",
    ):
        assert words in told
    long = "\n".join(_told("SETATTR"))
    assert "comes as a long call, all of it in a read chunk (RDMA_NOMSG of version 1)" in long
    assert "leaves segment 2 empty (R_key 0x0000203d)" in "\n".join(_told("READDIR"))


def test_threads_of_nfsd_mixed() -> None:
    """One thread takes a call while another one sends a reply; TCP is left out."""
    done, known = _feed(_events(*SERVED_CALLS))
    found = [(call.xid, call.form) for call in [*done, *known.unfinished()]]
    assert sorted(found) == [
        (0x10000001, "inline, write chunk"),
        (0x11000001, "read chunk, inline"),
        (0x12000001, "inline, inline"),
        (0x13000001, "long call, reply chunk"),
    ]


def test_thread_whose_name_the_trace_has_forgotten() -> None:
    """The trace keeps the names of few threads, and has <...> for the others."""
    text = server_lines(SERVED_CALLS)
    text[1::2] = [line.replace(" nfsd-", " <...>-") for line in text[1::2]]
    done, known = _feed(list(parse(text)))
    told = _feed(_events(*SERVED_CALLS))[0]
    assert [(call.xid, call.form) for call in done] == [(call.xid, call.form) for call in told]
    assert len(known.unfinished()) == 2


def _decode(xid: int, receive: int = 7) -> str:
    words = f"xid=0x{xid:08x} vers=1 credits=128 proc=RDMA_MSG hdrlen=28"
    return f"svcrdma_decode_rqst: cq.id=3 cid={receive} {words}"


_SENT = "svcrdma_post_send: cq.id=3 cid=9 num_sge=1 inv_rkey=0x00000000"
_FULL = "svcrdma_sq_full: cq.id=3 cid=-1 sc_sq_avail=0/100"
_ROOM = "svcrdma_sq_retry: cq.id=3 cid=-1 sc_sq_avail=50/100"


def test_replies_that_wait_for_the_send_queue() -> None:
    """The completion worker of our module sends them in their order, and says so afterwards."""
    ours = [(20, 9, _SENT), (21, 9, _ROOM), (22, 9, _SENT), (23, 9, _ROOM)]
    done, known = _feed(
        _events((0, 1, _decode(1)), (1, 1, _FULL), (2, 1, _decode(2)), (3, 1, _FULL), *ours)
    )
    assert [(call.xid, len(call.events)) for call in done] == [(1, 3), (2, 3)]
    assert known.unfinished() == []
    assert "waits for the send queue, of which is free: 0/100" in tell(done[0])[2]


def test_reply_of_the_stock_module_that_waits() -> None:
    """The kernel's own module has the thread wait, which says so before it sends."""
    stock = _events((0, 1, _decode(1)), (1, 1, _FULL), (9, 1, _ROOM), (10, 1, _SENT))
    (call,), _ = _feed(stock)
    assert [event.name for event in call.events][2:] == ["svcrdma_sq_retry", "svcrdma_post_send"]


def test_segments_that_the_stock_module_traces_first() -> None:
    """It traces the call when it has decoded the whole header."""
    write = "svcrdma_decode_wseg: cq.id=3 cid=7 segno=0 65536@0x81058ad3063b1000:0x0000225f"
    other = write.replace("cid=7", "cid=8")
    arrived = "svcrdma_wc_recv: cq.id=3 cid=7 received=228"
    begin = [(0, 9, arrived), (1, 1, write), (2, 2, other), (3, 1, _decode(1)), (4, 1, _SENT)]
    (call,), _ = _feed(_events(*begin))
    names = [event.name.removeprefix("svcrdma_") for event in call.events]
    assert names == ["wc_recv", "decode_wseg", "decode_rqst", "post_send"]


def test_rdma_reads_with_the_same_number() -> None:
    """A work request's number is used again before a thread has taken the first call."""
    post, read = "svcrdma_post_read_chunk: cq.id=3 cid=260 sqecount=1", "svcrdma_wc_read: cq.id=3"
    read += " cid=260 totalbytes=4096 latency-us=30"
    taken = "svcrdma_read_finished: cq.id=3 cid=260"
    begin = [(0, 9, _decode(1)), (1, 9, post), (2, 9, read)]
    begin += [(3, 9, _decode(2)), (4, 9, post), (5, 9, read)]
    ends = [(6, 1, taken), (7, 2, taken), (8, 2, _SENT), (9, 1, _SENT)]
    done, _ = _feed(_events(*begin, *ends))
    assert [(call.xid, call.thread) for call in done] == [(2, "2"), (1, "1")]


def test_call_that_is_refused() -> None:
    header = "xid=0x00000001 vers=7 credits=128 proc=0"
    refused = f"svcrdma_decode_badvers_err: cq.id=3 cid=7 {header}"
    (call,), _ = _feed(
        _events((0, 1, refused), (1, 1, "svcrdma_err_vers: xid=0x00000001"), (2, 1, _SENT))
    )
    told = "\n".join(tell(call))
    assert "is refused: its version is not served (version 7)" in told
    assert "is answered with ERR_VERS" in told


def test_connection_that_ends_under_a_reply() -> None:
    failed = "svcrdma_wc_send_flush: cq.id=3 cid=9 status=WR_FLUSH_ERR (5/0xf9)"
    write = "svcrdma_post_write_chunk: cq.id=3 cid=9 sqecount=1"
    (call,), _ = _feed(_events((0, 1, _decode(1)), (1, 1, write), (2, 1, _SENT), (9, 5, failed)))
    assert tell(call)[-1].endswith("the Send has failed: WR_FLUSH_ERR")


def test_thread_that_goes_on_with_tcp() -> None:
    """A thread's events for a call over TCP do not belong to its previous call."""
    operation = "nfsd_compound_status: op=1/1 OP_READ status=0"
    over_tcp = "svc_xdr_recvfrom: xid=0x00000099 head=[00000000aa,80] page=0 tail=[00,0] len=80"
    _, known = _feed(_events((0, 1, _decode(1)), (1, 1, over_tcp), (2, 1, operation)))
    assert [len(call.events) for call in known.unfinished()] == [1]


def test_unfinished_call_and_error_of_an_operation() -> None:
    operation = "nfsd_compound_status: op=2/3 OP_LOOKUP status=2"
    _, known = _feed(_events((0, 1, _decode(1)), (30, 1, operation)))
    told = tell(known.unfinished()[0])
    assert told[0] == "a call (LOOKUP), xid 0x00000001: not ended after 30 us"
    assert told[-1].endswith("operation 2 of 3, LOOKUP, ends with NFS error 2")


def test_calls_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_OPEN", 3)
    _, known = _feed(_events(*((xid, xid, _decode(xid)) for xid in range(1, 9))))
    assert [call.xid for call in known.unfinished()] == [6, 7, 8]


class Recorded:
    """A recording that has ended."""

    lost = 0

    def __init__(self, text: list[str]) -> None:
        """Gives all events at once."""
        self._events = list(parse(text))

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the events, once."""
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        """Does nothing."""


def _ended() -> Iterator[int | None]:
    yield 0


def _trace(text: list[str], **wish: object) -> None:
    chosen = command.Wish(["true"], serves=True, **wish)
    command.trace(chosen, Recorded(text), lambda _: _ended())


def test_command_on_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    _trace(RECORDED)
    told = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("nfsd v4 COMPOUND") for line in told) == 5
    assert told[-2].startswith("0 RPCs in ")
    assert told[-1].startswith("5 calls served (call, reply): 1 inline, inline, 1 inline, write")


def test_one_xid_on_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    _trace(RECORDED, xid=0x84058AD3)
    told = capsys.readouterr().out
    assert told.startswith("nfsd v4 COMPOUND (SEQUENCE PUTFH WRITE) of 10.0.0.2, xid 0x84058ad3")
    assert told.endswith("1 calls served (call, reply): 1 read chunk, inline\n")


def test_json_on_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    _trace(RECORDED, as_json=True)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {call["role"] for call in told} == {"server"}
    read = next(call for call in told if call["operations"][-1] == "READ")
    assert (read["reply_form"], read["written_bytes"]) == ("write chunk", 65536)
    assert (read["client"], read["execute_us"]) == ("10.0.0.2", 3358)
    assert read["events"][1]["us"] == 480


def test_host_that_is_client_and_server(capsys: pytest.CaptureFixture[str]) -> None:
    """Both sides of one host have the same XID: each prints its own part."""
    own = [line.replace("0x996e5449", "0x7f058ad3") for line in lines(GETATTR)]
    _trace([*RECORDED, *own, *lines(READ)])
    told = capsys.readouterr().out.splitlines()
    heads = [line for line in told if "xid 0x7f058ad3" in line]
    assert [head.split(",")[0].split()[0] for head in heads] == ["nfsd", "nfsv4"]
    assert told[-2].startswith("2 RPCs in ")
    assert told[-1].startswith("5 calls served ")


def test_events_of_connections(capsys: pytest.CaptureFixture[str]) -> None:
    breach = "svcrdma_breach: addr=10.0.0.2:51 xid=0x00000000 name=slow what=no call came"
    short = "svcrdma_decode_short_err: cq.id=3 cid=7 hdrlen=12"
    text = server_lines([(0, 1, breach), (1, 1, short)])
    _trace(text)
    assert "slow" not in capsys.readouterr().out
    _trace(text, everything=True)
    told = capsys.readouterr().out
    assert "100.000000  svcrdma_breach: addr=10.0.0.2:51" in told
    assert "svcrdma_decode_short_err" in told


def test_events_that_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a server are recorded where nfsd listens for RDMA."""
    asked = []

    def refuse(names: list[str]) -> None:
        asked.append(set(names))
        raise cli.UsageError("enough")

    monkeypatch.setattr(cli, "Recording", refuse)
    host = FakeHost()
    assert cli.main(["trace", "true"], host) == 1
    host.files["/proc/fs/nfsd/portlist"] = "rdma 20049\n"
    assert cli.main(["trace", "true"], host) == 1
    assert cli.main(["trace", "--all", "true"], host) == 1
    assert not asked[0] & set(calls.EVENTS)
    assert asked[1] >= set(calls.EVENTS)
    assert asked[2] >= {*calls.EVENTS, *calls.CONNECTION_EVENTS}
