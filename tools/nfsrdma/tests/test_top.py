# SPDX-License-Identifier: GPL-2.0
"""Tests of ``nfsrdma top``: counters, latencies, the frame, keys, and the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fake import DOWN, MOUNTED, SERVED, UP, FakeHost
from nfsrdma.mountstats import Counts
from nfsrdma.top import command, served
from nfsrdma.top.frame import HELP, Look, Order, frame
from nfsrdma.top.latencies import MOST, Latencies, quantile
from nfsrdma.top.sample import Sample, Sampler
from nfsrdma.top.served import Served
from nfsrdma.trace.events import Event, parse
from recorded import GETATTR, READ, SERVED_CALLS, lines, server_lines

from nfsrdma import mountstats

STATS = """\
device proc mounted on /proc with fstype proc
device 10.0.0.1:/export mounted on /mnt/nfs with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,proto=rdma
\txprt:\trdma 0 0 1 0 0 57 57 0 58 0 2 14 9 0 0 0 0 0 0 0 0 0 0 32 0 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 10 12 0 2000 650000 5 30 40 0
\t     GETATTR: 4 4 0 800 960 0 2 2 1

device 10.0.0.1:/other mounted on /mnt/tcp with fstype nfs4 statvers=1.1
\txprt:\ttcp 0 0 1 0 0 57 57 0 58 0 2 14 9
\t        READ: 1000 1000 0 0 0 0 0 0 0
"""
MORE = STATS.replace("READ: 10 12 0 2000 650000 5 30 40 0", "READ: 30 33 0 6000 1950000 9 90 120 0")


def _read_events() -> list[Event]:
    return list(parse([*lines(READ), *lines(GETATTR)]))


class Source:
    """A source of events that a test fills."""

    lost = 0

    def __init__(self, events: list[Event]) -> None:
        """Gives all events at once."""
        self.events = events
        self.filters: list[str] = []

    def read(self, _patience: float = 0) -> list[Event]:
        """Returns the events, once."""
        events, self.events = self.events, []
        return events

    def set_filter(self, text: str, _names: Sequence[str]) -> None:
        """Keeps the filter."""
        self.filters.append(text)


def _clock(*times: float) -> Iterator[float]:
    yield from times


def _sampler(source: Source | None, *, serves: bool = False) -> tuple[FakeHost, Sampler]:
    host = FakeHost()
    host.files[mountstats.FILE] = "" if serves else STATS
    clock = _clock(0, 2, 4, 6, 8)
    return host, Sampler(host, source, lambda: next(clock), serves=serves)


def test_counters_of_mounts_by_rdma() -> None:
    found = mountstats.parse(STATS)
    assert list(found) == ["/mnt/nfs"]
    assert found["/mnt/nfs"]["READ"] == Counts(10, 12, 0, 2000, 650000, 5, 30, 40, 0)
    assert found["/mnt/nfs"]["READ"].retransmissions == 2


def test_increase() -> None:
    before, after = (mountstats.parse(text) for text in (STATS, MORE))
    more = Counts(20, 21, 0, 4000, 1300000, 4, 60, 80, 0)
    assert mountstats.increase(before, after) == {"READ": more}


def test_increase_when_a_mount_goes() -> None:
    """It takes its counters along, and nothing of another mount's increase."""
    small, large = Counts(10, 10, 0, 100, 100), Counts(5, 5, 0, 10**6, 10**6)
    before = {"0:31": {"READ": small}, "0:32": {"READ": large}}
    after = {"0:31": {"READ": small + small + small}, "0:33": {"WRITE": large}}
    assert mountstats.increase(before, after) == {"READ": small + small, "WRITE": large}


def test_increase_of_a_mount_that_has_the_number_of_another() -> None:
    before, after = Counts(10, 10, 0, 10**6, 10**6), Counts(12, 12, 0, 100, 100)
    assert mountstats.increase({"0:31": {"READ": before}}, {"0:31": {"READ": after}}) == {
        "READ": after
    }


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        ([], 0.5, 0),
        ([5], 0.99, 5),
        ([3, 1, 2], 0.5, 2),
        ([1, 2], 0.5, 1),
        (range(1, 101), 0.99, 99),
    ],
)
def test_quantile(values: list[int], part: float, expected: int) -> None:
    assert quantile(list(values), part) == expected


def test_latencies_by_form() -> None:
    latencies = Latencies()
    latencies.feed(_read_events())
    forms, rate = latencies.take(2)
    assert {name: form.rtts for name, form in forms.items()} == {
        "inline, write chunk": [2100],
        "inline, inline": [110],
    }
    assert forms["inline, write chunk"].mappings == [pytest.approx(15)]
    assert rate > 0
    assert latencies.take(2) == ({}, 0)


def test_busy_host_is_sampled() -> None:
    latencies = Latencies()
    assert not latencies.adapt(MOST)
    assert latencies.adapt(7 * MOST)
    assert latencies.one_in == 8
    assert latencies.filter == "!(task_id & 7)"
    assert latencies.adapt(1)
    assert latencies.one_in == 1
    assert latencies.filter == "0"


def test_sample() -> None:
    source = Source(_read_events())
    host, sampler = _sampler(source)
    host.files[mountstats.FILE] = MORE
    sample = sampler.take()
    assert sample.seconds == 2
    assert sample.total.operations == 20
    assert [conn.peer for conn in sample.connections] == ["10.0.0.1:20049"]
    assert set(sample.forms) == {"inline, inline", "inline, write chunk"}
    assert source.filters == []
    source.events = _read_events() * 2000
    assert sampler.take().one_in == 1
    assert source.filters == ["!(task_id & 7)"]
    assert sampler.take().one_in == 8


def test_frame() -> None:
    host, sampler = _sampler(Source(_read_events()))
    host.files |= {
        mountstats.FILE: MORE,
        "/sys/kernel/debug/rpcrdma/connections": UP + DOWN,
    }
    sample = sampler.take()
    sample.own_load = 0.0125
    assert frame(sample, Look()) == [
        "nfsrdma top, every 2 s: 10 ops/s, sent 2.0 KiB/s, received 634.8 KiB/s, 1 sent again",
        "cost: 1.2% of a processor for this program; tracing all calls, 8 events/s",
        "",
        "Connections",
        "  ROLE    PEER            DEVICE  V  STATE     CREDITS  IN USE  INLINE  READ  WRITE  REPLY"
        "  REGIONS",
        "  client  10.0.0.1:20049  rxe0/1  2  up 2m05s  64/128   5       1       2     3      4    "
        "  10/32",
        "  client  10.0.0.3:20049  -       -  down 30s  -        -       -       -     -      -    "
        "  -",
        "",
        "Operations of mounts",
        "  OPERATION  OPS/S  SENT/S   RECEIVED/S  ROUND TRIP  IN ALL   AGAIN  ERRORS",
        "  READ       10.0   2.0 KiB  634.8 KiB   3.00 ms     4.00 ms  1      0",
        "",
        "Calls by form (call, reply)",
        "  FORM                 CALLS/S  MEDIAN   99 %     MAX      REGISTRATION",
        "  inline, write chunk  0.5      2.10 ms  2.10 ms  2.10 ms  15 us",
        "  inline, inline       0.5      110 us   110 us   110 us   -",
    ]


@pytest.mark.parametrize(("height", "shown"), [(None, 30), (44, 30), (43, 28), (24, 9), (5, 2)])
def test_connections_leave_room_for_the_tables(height: int | None, shown: int) -> None:
    host, sampler = _sampler(Source(_read_events()))
    host.files |= {mountstats.FILE: MORE, "/sys/kernel/debug/rpcrdma/connections": UP * 30}
    told = frame(sampler.take(), Look(), height)
    assert sum(line.startswith("  client") for line in told) == shown
    rest = [] if shown == 30 else [f"  and {30 - shown} more: nfsrdma list"]
    assert [line for line in told if " more: " in line] == rest
    assert told[told.index("Operations of mounts") + 2].startswith("  READ ")
    assert told[-1].startswith("  inline, inline ")
    assert len(told) == 44 or len(told) <= max(18, height or 0)


def test_frame_of_a_sampled_host() -> None:
    sample = Sample(2.0, one_in=16, event_rate=3000, lost=5)
    sample.forms = Sampler(FakeHost(), None)._latencies.take(1)[0]
    assert "tracing one call in 16, 3000 events/s, 5 lost" in frame(sample, Look())[1]


def test_lost_events_are_those_of_the_interval() -> None:
    source = Source([])
    source.lost = 2
    _, sampler = _sampler(source)
    source.lost = 7
    assert sampler.take().lost == 5
    assert sampler.take().lost == 0
    source.lost = 8
    assert "events/s, 1 lost" in frame(sampler.take(), Look())[1]


def _served_events() -> list[Event]:
    return list(parse(server_lines(SERVED_CALLS)))


def test_served_calls_by_form() -> None:
    calls = Served()
    calls.feed(_served_events())
    forms = calls.take()
    assert {name: (form.rtts, form.mappings) for name, form in forms.items()} == {
        "inline, write chunk": ([50], []),
        "read chunk, inline": ([450], [300]),
        "inline, inline": ([40], []),
        "long call, reply chunk": ([360], [250]),
    }
    assert calls.take() == {}


def test_served_calls_of_threads_without_names() -> None:
    """The trace keeps the names of few threads, and has <...> for the others."""
    text = server_lines(SERVED_CALLS)
    text[1::2] = [line.replace(" nfsd-", " <...>-") for line in text[1::2]]
    calls, named = Served(), Served()
    calls.feed(parse(text))
    named.feed(_served_events())
    assert calls.take() == named.take()


def test_served_call_keeps_its_form_beside_others() -> None:
    """A call that is not looked at gives its chunks to no other one."""
    calls = Served()
    sampled = "0x10000001"
    calls.feed(
        event
        for event in _served_events()
        if event.xid is None or event.text.find(f"xid={sampled}") >= 0
    )
    assert {name: form.rtts for name, form in calls.take().items()} == {"inline, write chunk": [50]}


def test_filter_of_served_calls() -> None:
    assert served.filter_for(1) == "0"
    assert served.filter_for(8) == "!(xid & 0x7000000)"
    assert served.filter_for(1024) == "!(xid & 0xff000000)"


def test_frame_of_a_server() -> None:
    source = Source(_served_events())
    host, sampler = _sampler(source, serves=True)
    host.files["/sys/kernel/debug/rpcrdma/connections"] = SERVED
    told = frame(sampler.take(), Look())
    assert told[0].endswith("0 sent again; 2 calls/s served")
    place = told.index("Calls that nfsd serves, by form (call, reply)")
    assert told[place:] == [
        "Calls that nfsd serves, by form (call, reply)",
        "  FORM                    CALLS/S  MEDIAN  99 %    MAX     RDMA READS",
        "  inline, write chunk     0.5      50 us   50 us   50 us   -",
        "  read chunk, inline      0.5      450 us  450 us  450 us  300 us",
        "  inline, inline          0.5      40 us   40 us   40 us   -",
        "  long call, reply chunk  0.5      360 us  360 us  360 us  250 us",
    ]
    assert "Operations of mounts" not in told
    source.events = _served_events() * 4000
    sampler.take()
    assert source.filters[1] == served.filter_for(sampler.take().one_in)
    idle = command.describe(sampler.take())
    assert idle["served"] == {}


def test_frame_without_tracing_and_connections() -> None:
    told = "\n".join(frame(Sample(2.0, problem="only root"), Look()))
    assert "no tracing" in told
    assert "  not traced" in told
    assert "  unknown: only root" in told


def test_orders() -> None:
    operations = {
        "A": Counts(9, 9, 0, 1, 1, 0, 9, 9, 0),
        "B": Counts(5, 5, 0, 900, 1, 0, 5, 5, 0),
        "C": Counts(1, 1, 0, 1, 1, 0, 100, 100, 0),
    }
    first = {}
    for order in Order:
        told = frame(Sample(1.0, operations=operations), Look(order))
        first[order] = told[told.index("Operations of mounts") + 2].split()[0]
    assert first == {Order.RATE: "A", Order.BYTES: "B", Order.TIME: "C"}


class Keys:
    """A screen that keeps the frames, and presses keys."""

    def __init__(self, keys: str) -> None:
        """The keys are pressed one after the other."""
        self._keys = list(keys)
        self.frames: list[list[str]] = []

    def show(self, lines: list[str]) -> None:
        """Keeps a frame."""
        self.frames.append(list(lines))

    def height(self) -> int:
        """Returns the number of lines."""
        return 24

    def key(self, _patience: float) -> str:
        """Returns the next key."""
        return self._keys.pop(0) if self._keys else "q"


def test_keys() -> None:
    _, sampler = _sampler(None)
    screen, look = Keys("xph?+-bq"), Look()
    command.interactive(sampler, screen, look)
    assert (look.paused, look.help, look.interval) == (True, False, 2.0)
    assert look.order == Order.BYTES
    assert HELP in screen.frames
    # One frame at the begin, and one for each key that means something.
    assert len(screen.frames) == 7


def test_frames_fit_the_screen() -> None:
    host, sampler = _sampler(None)
    host.files["/sys/kernel/debug/rpcrdma/connections"] = UP * 30
    screen = Keys("")
    command.interactive(sampler, screen, Look())
    assert len(screen.frames[0]) == screen.height()


def test_interval_has_limits() -> None:
    look = Look()
    for _ in range(10):
        command.press(look, "+")
    assert look.interval == command.LONGEST
    for _ in range(10):
        command.press(look, "-")
    assert look.interval == command.SHORTEST


def test_batch_in_json() -> None:
    host, sampler = _sampler(Source(_read_events()))
    host.files[mountstats.FILE] = MORE
    out: list[str] = []
    command.batch(sampler, Look(interval=0.01), 1, True, out.append)
    told = json.loads(out[0])
    assert told["operations"]["READ"]["per_second"] == 10
    assert told["forms"]["inline, write chunk"]["median_us"] == 2100
    assert told["connections"][0]["role"] == "client"


def test_batch_in_text() -> None:
    _, sampler = _sampler(None)
    out: list[str] = []
    command.batch(sampler, Look(interval=0.01), 2, False, out.append)
    assert [text.lstrip().split(",")[0] for text in out] == ["nfsrdma top", "nfsrdma top"]


def _until(master: int, text: str) -> str:
    """Returns what the terminal shows, when that contains `text`."""
    shown, deadline = "", time.monotonic() + 30
    while text not in shown and time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 65536).decode()
    assert text in shown
    return shown


def test_pseudo_terminal() -> None:
    """The command runs in a terminal, obeys keys, and restores the screen."""
    child, master = pty.fork()
    if child == 0:
        program = Path(__file__).resolve().parents[1] / "command"
        os.execv(sys.executable, [sys.executable, str(program), "top", "--no-trace"])
    shown = _until(master, "not traced")
    assert shown.startswith("\x1b[?1049h")
    assert re.search(r"nfsrdma top, every 2 s: \d+ ops/s", shown)
    os.write(master, b"h")
    _until(master, "longer or shorter intervals")
    os.write(master, b"q")
    _until(master, "\x1b[?1049l")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(master)


def test_mount_that_is_seen_twice() -> None:
    """A bind mount has the counters of the mount that it shows, and no operation of its own."""
    host = FakeHost()
    host.files["/proc/self/mountinfo"] = MOUNTED + MOUNTED.replace("/mnt/nfs", "/srv/again")
    head = "device 10.0.0.1:/export mounted on /mnt/nfs "
    mount = STATS[STATS.index(head) : STATS.index("\ndevice 10.0.0.1:/other")]
    host.files[mountstats.FILE] = mount + "\n" + mount.replace("/mnt/nfs", "/srv/again") + "\n"
    assert mountstats.total(mountstats.systems(host))["READ"].operations == 10
    other = MOUNTED.replace("/mnt/nfs", "/srv/again").replace("0:31", "0:32")
    host.files["/proc/self/mountinfo"] = MOUNTED + other
    assert mountstats.total(mountstats.systems(host))["READ"].operations == 20


@pytest.mark.parametrize(
    "line",
    [
        "\txprt:\trdma " + " ".join(["x"] * 26),
        "\txprt:\trdma " + " ".join(["9" * 5000] * 26),
        "\t        READ: 1-2",
        "\t        READ: -",
        "\t        READ: " + "9" * 5000,
    ],
    ids=["words", "digits", "signs", "sign", "counter"],
)
def test_counters_that_a_server_forges(line: str) -> None:
    """The kernel shows the name of a server's implementation with the line ends in it."""
    forged = f"\n\timpl_id:\tname='\n{line}\n',domain='',date='0,0'\n\tper-op"
    text = STATS.replace("\n\tper-op", forged, 1)
    assert mountstats.parse(text) == mountstats.parse(STATS)
    assert mountstats.transports(text) == mountstats.transports(STATS)


def test_mount_point_with_odd_blanks() -> None:
    text = STATS.replace("/mnt/nfs", "/mnt/\x0bdevice\xa0x")
    assert mountstats.parse(text).keys() == {"/mnt/\x0bdevice\xa0x"}
    assert mountstats.transports(text).keys() == {"/mnt/\x0bdevice\xa0x"}
