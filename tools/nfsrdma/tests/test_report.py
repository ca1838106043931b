# SPDX-License-Identifier: GPL-2.0
"""Tests of ``nfsrdma report``: the recording, the page, its charts, and the mask."""

from __future__ import annotations

import json
import os
import re
import signal
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake import MOUNTED, UP, FakeHost
from nfsrdma.errors import UsageError
from nfsrdma.report import command
from nfsrdma.report.mask import Mask
from nfsrdma.report.record import SERVER_EVENTS, Data, Recorder, record
from nfsrdma.report.svg import Curve, Range, bars, curves, ranges
from nfsrdma.report.tally import operation
from nfsrdma.trace.calls import Call, Calls
from nfsrdma.trace.events import Event, parse
from recorded import GETATTR, READ, SERVED_CALLS, lines, server_lines

from nfsrdma import connections

_PEER = "peer=[10.0.0.1]:20049"
_STATE = (1200, f"xprtrdma_conn_state: {_PEER} disconnected: up -> draining")
_REFUSED = [
    (1300 + number, f"xprtrdma_connect: {_PEER} rc=-111 connection status=-111")
    for number in range(3)
]
_TRIED = (1400, f"xprtrdma_conn_state: {_PEER} start: idle -> resolving")


class Source:
    """A recording that has all its events at once."""

    lost = 3

    def __init__(self, events: list[Event]) -> None:
        """Keeps the events."""
        self._events = events

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the events, once."""
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        """Does nothing."""


def _data() -> Data:
    source = Source(list(parse(lines([*READ, *GETATTR, _STATE, *_REFUSED, _TRIED]))))
    return record(FakeHost(), source, 0, None)


def test_recording() -> None:
    data = _data()
    assert sorted(data.made.groups) == [
        ("nfsv4 GETATTR", "inline, inline"),
        ("nfsv4 READ", "inline, write chunk"),
    ]
    assert data.made.groups["nfsv4 READ", "inline, write chunk"].rtts == [2100]
    assert data.made.sizes == {0: 1, 65536: 1}
    assert [name for _, name, _ in data.noted] == ["conn_state", *["connect"] * 3]
    assert [conn.peer for conn in data.looks[0][1]] == ["10.0.0.1:20049"]
    assert data.lost == 3


class Page(HTMLParser):
    """The tags of a page, and what they load."""

    def __init__(self, text: str) -> None:
        """Parses the page."""
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes a tag, and references to other files."""
        if tag not in ("meta", "line", "circle", "rect", "path"):
            self.open.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        """Compares with the tag that is open."""
        if tag not in ("line", "circle", "rect", "path"):
            assert self.open.pop() == tag

    def handle_startendtag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes references alone."""
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]


def _render(host: FakeHost | None = None, **wish: object) -> str:
    return command.render(host or FakeHost(), _data(), command.Wish("x", **wish))


def test_page_is_sound_and_loads_nothing() -> None:
    parsed = Page(_render())
    assert parsed.open == []
    assert parsed.loads == []


def test_page_shows_what_was_recorded() -> None:
    text = _render()
    assert "10.0.0.1:20049" in text
    assert "READ: inline, write chunk" in text
    assert "2.10 ms" in text
    assert "up to 64.0 KiB" in text
    assert "disconnected: up -&gt; draining" in text
    assert "rc=-111 connection status=-111 (3 times, the last at " in text
    assert "no room for 3 events" in text


def test_findings_are_on_the_page() -> None:
    host = FakeHost()
    host.connection(breaches=3)
    assert "has broken the protocol: breaches since its line was created: 3" in _render(host)


def test_recording_for_programs() -> None:
    data, about = _data(), {"host": "?"}
    text = command.render(FakeHost(), data, command.Wish("x"))
    found = re.search(r"<script type=application/json id=recording>(.*?)</script>", text, re.S)
    assert found
    told = json.loads(found[1])
    assert told["operations"][1]["median_us"] == 2100
    written = json.loads(command.render(FakeHost(), data, command.Wish("x", as_json=True)))
    assert told | {"about": about} == written | {"about": about}


def test_nothing_was_recorded() -> None:
    host = FakeHost()
    host.remove("/sys/kernel/debug/rpcrdma/connections")
    data = record(host, Source([]), 0, None)
    text = command.render(host, data, command.Wish("x"))
    assert Page(text).open == []
    assert "No call was made over RDMA." in text
    assert "No connection was seen." in text


def test_hostile_names_do_not_leave_their_place() -> None:
    host = FakeHost()
    host.files[connections.FILE] = UP.replace("device=rxe0", "device=</script><b>x")
    data = record(host, Source([]), 0, None)
    text = command.render(host, data, command.Wish("x"))
    assert "<b>x" not in text
    assert Page(text).open == []


def test_masked_page_has_no_address() -> None:
    text = _render(masked=True)
    assert "10.0.0" not in text
    assert "/export" not in text
    assert "/mnt/nfs" not in text
    # The same address is the same word everywhere.
    assert "address-1:20049" in text
    assert "peer=[address-1]:20049" in text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("10.0.0.1:20049 and 10.0.0.2", "address-1:20049 and address-2"),
        ("[fd00::1]:20049 and fd00:0::1", "[address-1]:20049 and address-1"),
        ("at 12:34:56, version 0.1.0", "at 12:34:56, version 0.1.0"),
        ("fe80::1%eth0", "address-1"),
        ("box box-2 mybox box.example", "name-1 box-2 mybox name-1.example"),
        ("0000002a@00000005 65536@0x996e54485e574000:0x000022d5", None),
    ],
)
def test_mask(text: str, masked: str | None) -> None:
    assert Mask(["box"])(text) == (text if masked is None else masked)


def test_roles_are_not_masked() -> None:
    """A host may have the name of a role."""
    assert Mask(["client", "box"])("client of box") == "client of name-1"


SERVED = (Path(__file__).parent / "served.trace").read_text().splitlines()


def _served_data() -> Data:
    removal = "nfsd-7 [000] .....    19.5: svcrdma_device_removal: device=rxe0 xprt=10.0.0.9:51"
    return record(FakeHost(), Source(list(parse([*SERVED, removal]))), 0, None, serves=True)


def test_served_calls() -> None:
    """The events beside those that a report records are in no way."""
    served = _served_data().served
    assert served
    assert {key: len(group.rtts) for key, group in served.groups.items()} == {
        ("nfsdv4 LOOKUP", "inline, inline"): 1,
        ("nfsdv4 READ", "inline, write chunk"): 1,
        ("nfsdv4 WRITE", "read chunk, inline"): 1,
        ("nfsdv4 READDIR", "inline, reply chunk"): 1,
        ("nfsdv4 SETATTR", "long call, inline"): 1,
    }
    assert served.sizes == {0: 1, 8192: 1, 65536: 3}


def test_events_that_a_server_records_suffice() -> None:
    """The calls are the same with the events alone that a report records."""
    names = {name.partition(":")[2] for name in SERVER_EVENTS}
    events = [event for event in parse(SERVED) if event.name in names]
    served = record(FakeHost(), Source(events), 0, None, serves=True).served
    all_of_it = _served_data().served
    assert served
    assert all_of_it
    assert set(served.groups) == set(all_of_it.groups)
    assert served.sizes == all_of_it.sizes


def test_call_that_is_served_ends_when_its_reply_is_posted() -> None:
    calls = Calls(until_sent=True)
    events = list(parse(server_lines(SERVED_CALLS)))
    done = [call.form for call in map(calls.feed, events) if call]
    assert done == [
        "inline, write chunk",
        "read chunk, inline",
        "inline, inline",
        "long call, reply chunk",
    ]
    assert calls.unfinished() == []


def test_page_of_a_server() -> None:
    text = command.render(FakeHost(), _served_data(), command.Wish("x", serves=True))
    assert Page(text).open == []
    assert "<h2>Calls that nfsd serves, by operation and form</h2>" in text
    assert "READDIR: inline, reply chunk" in text
    assert "<th>RDMA Reads</th>" in text
    assert "<td>device_removal</td>" in text
    # This host makes no calls itself.
    assert "Latency by operation and form</h2>" not in text
    wish = command.Wish("x", as_json=True)
    told = json.loads(command.render(FakeHost(), _served_data(), wish))
    (write,) = (row for row in told["served"] if row["operation"] == "nfsdv4 WRITE")
    assert (write["calls"], write["rdma_reads_us"] > 0) == (1, True)
    assert told["served_sizes"] == {"0": 1, "8192": 1, "65536": 3}


def test_server_without_calls() -> None:
    data = record(FakeHost(), Source([]), 0, None, serves=True)
    assert "No call was served over RDMA." in command.render(FakeHost(), data, command.Wish("x"))


def test_operation_of_a_compound() -> None:
    call = Call(1, program="nfsd v4", procedure="COMPOUND")
    assert operation(call) == "nfsdv4 COMPOUND"
    call.operations = ["SEQUENCE", "PUTFH", "OPEN", "GETFH", "ACCESS", "GETATTR"]
    assert operation(call) == "nfsdv4 OPEN ACCESS"
    call.operations = ["SEQUENCE"]
    assert operation(call) == "nfsdv4 SEQUENCE"


def test_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.html"
    wish = command.Wish(str(file), command=["true"])
    assert command.report(FakeHost(), Source(list(parse(lines(READ)))), wish) == 0
    assert file.read_text().startswith("<!DOCTYPE html>")
    assert capsys.readouterr().out == f"{file}: 1 calls\n"
    with pytest.raises(UsageError, match="cannot write"):
        command.report(FakeHost(), Source([]), command.Wish(str(tmp_path), 0))


def _elements(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter())


def test_ranges_are_on_a_logarithmic_axis() -> None:
    svg = ranges([Range("a", 10, 100, 1000, "3 calls")], "t")
    (thick,) = (e for e in _elements(svg) if e.get("class") == "thick")
    (thin,) = (e for e in _elements(svg) if e.get("class") == "thin")
    lengths = [float(e.get("x2", 0)) - float(e.get("x1", 0)) for e in (thick, thin)]
    assert lengths[1] == pytest.approx(2 * lengths[0])
    assert "median 10 us, 99 % 100 us, maximum 1.00 ms; 3 calls" in svg


def test_bars_are_proportional() -> None:
    svg = bars([("a", 10), ("b<", 5)], "t")
    widths = [float(e.get("width", 0)) for e in _elements(svg) if e.get("class") == "bar"]
    assert widths[0] == pytest.approx(2 * widths[1])
    assert "b&lt;" in svg


def test_curves_keep_each_value_until_the_next() -> None:
    svg = curves([Curve("c", "one", [(0, 1), (5, 2)])], [(5, "lost")], 10, "t")
    (path,) = (e for e in _elements(svg) if e.tag == "path")
    assert path.get("d") == "M60.0 99.0H450.0V28.0"
    (mark,) = (e for e in _elements(svg) if e.get("class") == "mark")
    assert mark.get("x1") == "450.0"
    assert curves([Curve("c", "one", [])], [], 0, "t").count('d=""') == 1


def test_mask_of_names_that_json_escapes() -> None:
    """JSON writes some letters as escapes, and a name may be a word of the format."""
    host = FakeHost()
    line = MOUNTED.replace("/export", '/srv/M\u00fcller"s').replace("/mnt/nfs", "events")
    host.files["/proc/self/mountinfo"] = line
    data = Data(noted=[(0.0, "connect", 'from /srv/M\u00fcller"s')])
    text = command.render(host, data, command.Wish("x", masked=True, as_json=True))
    assert "ller" not in text
    (event,) = json.loads(text)["events"]
    assert event["text"].startswith("from name-")
    assert "ller" not in command.render(host, data, command.Wish("x", masked=True))


def test_address_at_the_end_of_a_sentence() -> None:
    assert Mask()("It is 10.0.0.1.") == "It is address-1."
    assert Mask()("version 7.3.4.1.2") == "version 7.3.4.1.2"


def test_status_is_that_of_the_command(tmp_path: Path) -> None:
    wish = command.Wish(str(tmp_path / "page.html"), command=["sh", "-c", "exit 7"])
    assert command.report(FakeHost(), Source([]), wish) == 7
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_command_that_cannot_be_run_leaves_the_earlier_page(tmp_path: Path) -> None:
    earlier, absent = tmp_path / "page.html", tmp_path / "absent.html"
    earlier.write_text("an earlier page")
    for file in (earlier, absent):
        wish = command.Wish(str(file), command=[str(tmp_path / "nothing")])
        with pytest.raises(UsageError, match="cannot run"):
            command.report(FakeHost(), Source([]), wish)
    assert earlier.read_text() == "an earlier page"
    assert not absent.exists()


def test_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    """Before the recording, not after it."""
    wish = command.Wish(str(tmp_path / "absent/page.html"), seconds=60)
    with pytest.raises(UsageError, match="No such file"):
        command.report(FakeHost(), Source([]), wish)


class InParts(Source):
    """A recording that is read an event at a time."""

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the next event."""
        events, self._events = self._events[:1], self._events[1:]
        return events


def test_events_that_take_more_than_one_read() -> None:
    """All that was recorded before the end is on the page."""
    data = record(FakeHost(), InParts(list(parse(lines([*READ, *GETATTR])))), 0, None)
    assert data.count == 2


class Interrupted(Source):
    """A recording during whose first read the user presses Ctrl-C."""

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the events, once."""
        events = super().read()
        if events:
            os.kill(os.getpid(), signal.SIGINT)
        return events


def test_looks_of_a_long_recording_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """They cover all of it at even distances, and the last one is that of the end."""
    now = 0.0
    monkeypatch.setattr("nfsrdma.report.record.time.monotonic", lambda: now)
    recorder = Recorder(FakeHost(), Source([]))
    for step in range(36_000):
        now = step / 10
        recorder.pump()
        assert len(recorder.data.looks) <= 241
    now = 3600.25
    *looks, end = [since for since, _ in recorder.end().looks]
    assert looks[0] == 0
    assert end == 3600.25
    assert 100 < len(looks) < 240
    steps = [later - earlier for earlier, later in pairwise(looks)]
    assert max(steps) <= min(steps) * 1.1
    assert looks[-1] + max(steps) > 3599


def test_interrupt_ends_the_recording_and_keeps_it() -> None:
    source = Interrupted(list(parse(lines(READ))))
    data = record(FakeHost(), source, 60, None)
    assert data.made.sizes == {65536: 1}
