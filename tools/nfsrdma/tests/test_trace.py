# SPDX-License-Identifier: GPL-2.0
"""Tests of ``nfsrdma trace``: lines of the trace, RPCs, and their words."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from nfsrdma.errors import UsageError
from nfsrdma.trace import command
from nfsrdma.trace.events import Event, lost, parse, parse_line
from nfsrdma.trace.rpcs import assemble
from nfsrdma.trace.words import connection_sentence, tell
from recorded import GETATTR, READ, lines

from nfsrdma import interrupt


def _events(*texts: Sequence[tuple[int, str]]) -> list[Event]:
    return list(parse(line for text in texts for line in lines(text)))


def test_line() -> None:
    event = parse_line(lines(READ)[2])
    assert event is not None
    assert (event.name, event.time) == ("xprtrdma_chunk_write", 100.00002)
    assert event.task == "0000002a@00000005"
    assert event.rest == "65536@0x996e54485e574000:0x000022d5 (last)"
    assert event.xid is None


def test_values() -> None:
    event = Event(0, "x", "task:1@2 xid=0x996e5448 credits=128 status=-5 text=abc")
    assert event.xid == 0x996E5448
    assert (event.number("credits"), event.number("status"), event.number("none")) == (128, -5, 0)
    assert event.value("text") == "abc"
    assert event.number("text") == 0


@pytest.mark.parametrize("line", ["", "# tracer: nop", "CPU:1 [LOST 12 EVENTS]", "nonsense"])
def test_lines_that_are_no_events(line: str) -> None:
    assert parse_line(line) is None


def test_lost_events_are_counted() -> None:
    assert lost(["CPU:1 [LOST 12 EVENTS]", "x", "CPU:0 [LOST 3 EVENTS]"]) == 15


def test_read() -> None:
    (rpc,), others = assemble(_events(READ))
    assert (rpc.name, rpc.xid, rpc.form) == ("nfsv4 READ", 0x996E5448, "inline, write chunk")
    assert (rpc.segments, rpc.registered, rpc.call_bytes) == (1, 65536, 176)
    assert (rpc.rtt, rpc.execute) == (2100, 2290)
    assert rpc.is_complete
    assert rpc.mapping == pytest.approx(15)
    # The event of a region without a task belongs to the RPC that maps the region.
    assert [event.name for event in others] == ["xprtrdma_mr_unmap"]


def test_read_in_words() -> None:
    (rpc,), _ = assemble(_events(READ))
    assert tell(rpc) == [
        "nfsv4 READ, xid 0x996e5448, task 0000002a@00000005: 2.30 ms",
        "          0 us  begins, in the background",
        "         15 us  region 31 maps 65536 bytes that the server may write (R_key 0x000022d5)",
        "         20 us  offers 65536 bytes in a write chunk (R_key 0x000022d5)",
        "         30 us  is prepared, 176 bytes, behind a header of 52: the call goes inline; the"
        " data of the reply is expected in a write chunk",
        "         40 us  posts the registration of region 31",
        "         45 us  is sent",
        "       2160 us  has its reply; the server grants 128 credits",
        "       2165 us  the server has invalidated region 31",
        "       2290 us  ends",
        "       2300 us  waited 10 us to be sent; round trip 2.10 ms; in all 2.29 ms",
    ]


def test_two_calls_are_told_apart() -> None:
    mixed = sorted([*READ, *GETATTR], key=lambda entry: entry[0])
    rpcs, _ = assemble(_events(mixed))
    assert [(rpc.name, rpc.form) for rpc in rpcs] == [
        ("nfsv4 READ", "inline, write chunk"),
        ("nfsv4 GETATTR", "inline, inline"),
    ]


def test_unfinished_call() -> None:
    (rpc,), _ = assemble(_events(READ[:6]))
    assert not rpc.is_complete
    assert tell(rpc)[0].endswith(": not ended after 45 us")


def test_call_that_is_given_up_and_refused() -> None:
    task = "task:0000002a@00000005 xid=0x996e5448"
    events = [
        *READ[:6],
        (50, f"xprt_retransmit: {task} nfsv4 READ ntrans=2 timeout=60000"),
        (55, "xprtrdma_mr_localinv: mr.id=31 nents=1 1@0x1:0x2 (FROM_DEVICE)"),
        (60, f"xprtrdma_given_up: {task} waited=1 answered=0"),
        (70, f"xprtrdma_reply_violation: {task} longer than offered"),
        (80, "rpc_task_end: task:0000002a@00000005 flags=ASYNC runstate=RUNNING status=-5"),
    ]
    (rpc,), _ = assemble(_events(events))
    assert rpc.retransmissions == 1
    words = "\n".join(tell(rpc))
    assert "is sent again, for the 2. time" in words
    assert "posts the invalidation of region 31" in words
    assert "is aborted: its reply was awaited, and has not arrived" in words
    assert "the reply breaks the protocol: xid=0x996e5448 longer than offered" in words
    assert words.endswith("ends with error -5")


def test_many_calls_whose_latency_does_not_come() -> None:
    end = [entry for entry in GETATTR if "rpc_stats" not in entry[1]]
    events = [
        (number * 2000 + micros, text.replace("2b@", f"{number:02x}@"))
        for number in range(100)
        for micros, text in end
    ]
    rpcs, _ = assemble(_events(events))
    assert [rpc.is_complete for rpc in rpcs] == [True] * 100
    assert {rpc.rtt for rpc in rpcs} == {None}


def test_nothing_was_copied() -> None:
    fixup = "xprtrdma_fixup: task:0000002b@00000005 fixup="
    (rpc,), _ = assemble(_events([*GETATTR[:4], (1125, f"{fixup}0 xdr=0/0/0")]))
    assert not any("copies" in line for line in tell(rpc))
    (rpc,), _ = assemble(_events([*GETATTR[:4], (1125, f"{fixup}9 xdr=0/0/0")]))
    assert tell(rpc)[-1].endswith("copies 9 bytes of the reply to pages")


def test_unknown_event_is_shown_as_it_is() -> None:
    (rpc,), _ = assemble(_events([(0, "xprtrdma_new: task:1@2 some=thing")]))
    assert tell(rpc)[1].endswith("xprtrdma_new: some=thing")


class Recorded:
    """A recording that has ended."""

    lost = 0

    def __init__(self, events: list[Event]) -> None:
        """Gives all events at once."""
        self._events = events

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the events, once."""
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        """Does nothing."""


def _ended(status: int) -> Iterator[int | None]:
    yield None
    yield status


def _trace(events: list[Event], **wish: object) -> int:
    chosen = command.Wish(command=["true"], **wish)
    return command.trace(chosen, Recorded(events), lambda _: _ended(7))


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _trace(_events(READ, GETATTR)) == 7
    out = capsys.readouterr().out
    assert out.startswith("nfsv4 READ, xid 0x996e5448")
    assert "nfsv4 GETATTR, xid 0x996e5449" in out
    assert "(call, reply): 1 inline, write chunk, 1 inline, inline" in out.splitlines()[-1]


class InParts(Recorded):
    """A recording that is read an event at a time, after its end."""

    ended = False

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the next event."""
        events = self._events[: int(self.ended)]
        del self._events[: int(self.ended)]
        return events

    def stop(self) -> None:
        """Lets the events be read."""
        self.ended = True


def test_events_that_take_more_than_one_read(capsys: pytest.CaptureFixture[str]) -> None:
    """All that was recorded before the end is printed."""
    chosen = command.Wish(command=["true"])
    command.trace(chosen, InParts(_events(READ, GETATTR)), lambda _: _ended(0))
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 RPCs in ")


def test_one_xid(capsys: pytest.CaptureFixture[str]) -> None:
    _trace(_events(READ, GETATTR), xid=0x996E5449)
    out = capsys.readouterr().out
    assert "READ" not in out
    assert "GETATTR" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    _trace(_events(READ), as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["procedure"], told["reply_form"], told["rtt_us"]) == ("READ", "write chunk", 2100)
    assert told["events"][1]["us"] == 15


def test_tasks_without_rdma_and_connections(capsys: pytest.CaptureFixture[str]) -> None:
    tcp = [(0, "rpc_request: task:1@2 nfsv4 NULL (sync)"), (9, "rpc_task_end: task:1@2 status=0")]
    state = [(10, "xprtrdma_conn_state: peer=[10.0.0.1]:20049 Disconnected: Up -> Draining")]
    _trace(_events(tcp, state))
    assert "NULL" not in capsys.readouterr().out
    _trace(_events(tcp, state), everything=True)
    out = capsys.readouterr().out
    assert "nfsv4 NULL, without XID" in out
    assert "100.000010  conn_state: peer=[10.0.0.1]:20049 Disconnected: Up -> Draining" in out


def test_connection_sentence() -> None:
    assert connection_sentence(Event(1.5, "xprtrdma_probe", "owes 3")) == "1.500000  probe: owes 3"


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """These tests may run in the background of a script, where interrupts are ignored."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


class Interrupted(Recorded):
    """A recording during whose first read the user presses Ctrl-C."""

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the events, once."""
        events = super().read()
        if events:
            os.kill(os.getpid(), signal.SIGINT)
        return events


def test_interrupt_loses_no_rpc(capsys: pytest.CaptureFixture[str]) -> None:
    """Events that were read from the recording are printed. The command is not waited for."""
    wish = command.Wish([], xid=0x996E5449)
    assert command.trace(wish, Interrupted(_events(READ, GETATTR)), command.running) == 0
    *told, last = capsys.readouterr().out.splitlines()
    assert told[0].startswith("nfsv4 GETATTR, xid 0x996e5449")
    assert last.startswith("1 RPCs in ")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_second_interrupt_is_raised() -> None:
    """The first one may not have helped."""
    with pytest.raises(KeyboardInterrupt), interrupt.noted() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        os.kill(os.getpid(), signal.SIGINT)


def test_ignored_interrupt_stays_ignored() -> None:
    """A shell without job control starts commands in the background so."""
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupt.noted() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupted()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, earlier)


def test_lost_events_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    source = Recorded([])
    source.lost = 4
    command.trace(command.Wish(["true"]), source, lambda _: _ended(0))
    assert "no room for 4 events" in capsys.readouterr().out


def test_nothing_to_wait_for() -> None:
    with pytest.raises(UsageError, match="--xid"):
        command.trace(command.Wish([]), Recorded([]), command.running)


def test_running() -> None:
    *before, status = command.running(["sh", "-c", "exit 3"])
    assert set(before) <= {None}
    assert status == 3
    with pytest.raises(UsageError, match="cannot run"):
        next(command.running(["/nonexistent/program"]))


def test_recording_of_a_kernel() -> None:
    """Lines of a guest of the lab: forms, chunks and latencies are found, and nothing is left."""
    text = (Path(__file__).parent / "recorded.trace").read_text()
    rpcs, others = assemble(parse(text.splitlines()))
    told = {rpc.procedure: (rpc.form, rpc.segments, rpc.is_complete, rpc.rtt) for rpc in rpcs}
    assert others == []
    assert told == {
        "OPEN": ("inline, reply chunk", 1, True, 2366),
        "READ": ("inline, write chunk", 1, True, 4111),
        "READDIR": ("inline, reply chunk", 3, True, 17619),
        "WRITE": ("read chunk, inline", 1, True, 13485),
    }


def test_command_that_a_signal_has_ended() -> None:
    """As the shell has it, so that the exit status of nfsrdma is one that exists."""
    *_, status = command.running(["sh", "-c", "kill -TERM $$"])
    assert status == 128 + 15
