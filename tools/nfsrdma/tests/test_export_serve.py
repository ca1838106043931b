# SPDX-License-Identifier: GPL-2.0
"""The HTTP server of ``nfsrdma export``, and the histograms that it may have."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from fake import SERVED, FakeHost
from nfsrdma.errors import UsageError
from nfsrdma.export import command, serve
from nfsrdma.export.collect import Collector
from nfsrdma.export.command import LOCALHOST, Wish, address
from nfsrdma.export.latency import BOUNDS, Histograms
from nfsrdma.export.metrics import Format, Page
from nfsrdma.export.serve import Server, chosen
from nfsrdma.trace.events import Event, parse
from recorded import GETATTR, READ, SERVED_CALLS, lines, server_lines
from test_export import both_roles, values

from nfsrdma import cli

FOLDER = Path(__file__).resolve().parents[1]
#: The header of Prometheus 2.42.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@contextmanager
def _serving(host: FakeHost, histograms: Histograms | None = None) -> Iterator[str]:
    """Serves in another thread. Yields the address of the metrics."""
    with Server((LOCALHOST, 0), Collector(host, histograms)) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield f"http://{LOCALHOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _get(url: str, accept: str = "") -> tuple[Message, str]:
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers, answer.read().decode()


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PROMETHEUS, Format.OPENMETRICS),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ("text/plain;version=0.0.4", Format.TEXT),
        ("text/plain, application/openmetrics-text;version=1.0.0;q=0.5", Format.TEXT),
        ("application/openmetrics-text;q=0", Format.TEXT),
        ("application/openmetrics-text;q=.", Format.TEXT),
        ("text/html,*/*;q=0.8", Format.TEXT),
        ("", Format.TEXT),
    ],
)
def test_format_is_what_the_reader_accepts(accept: str, form: Format) -> None:
    assert chosen(accept) is form


@pytest.mark.parametrize("filler", [" ", ";", "; q=", "q=1", ",", "a", "1."])
def test_long_header_costs_little(filler: str) -> None:
    """A header may have 64 KiB, and the server has one thread."""
    begin = time.process_time()
    chosen(f"text/plain{filler * (65000 // len(filler))}x")
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("form", Format)
def test_metrics_are_served(form: Format) -> None:
    accept = PROMETHEUS if form is Format.OPENMETRICS else ""
    with _serving(both_roles()) as url:
        headers, told = _get(f"{url}/metrics", accept)
    assert headers["Content-Type"] == form.value
    assert told.endswith("# EOF\n") == (form is Format.OPENMETRICS)
    assert values(told)["nfsrdma_up"] == 1


def test_each_request_looks_again() -> None:
    host = both_roles()
    with _serving(host) as url:
        assert values(_get(f"{url}/metrics")[1])["nfsrdma_up"] == 1
        host.remove("/sys/module/rpcrdma")
        host.remove("/sys/kernel/debug")
        assert values(_get(f"{url}/metrics")[1])["nfsrdma_up"] == 0


def test_other_paths() -> None:
    with _serving(both_roles()) as url:
        assert 'href="/metrics"' in _get(url)[1]
        with pytest.raises(urllib.error.HTTPError, match="404: the metrics are at /metrics"):
            _get(f"{url}/other")
        request = urllib.request.Request(f"{url}/metrics", data=b"x")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(request, timeout=10)


def test_reader_that_stops_is_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is one thread, so others would wait."""
    monkeypatch.setattr(serve._Handler, "timeout", 0.2)
    with _serving(both_roles()) as url, socket.socket() as silent:
        silent.connect((LOCALHOST, int(url.rpartition(":")[2])))
        silent.sendall(b"GET /metrics HTTP/1.0\r\n")
        assert values(_get(f"{url}/metrics")[1])["nfsrdma_up"] == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("10049", (LOCALHOST, 10049)),
        ("127.0.0.1:10049", ("127.0.0.1", 10049)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:10049", ("::1", 10049)),
    ],
)
def test_address(text: str, where: tuple[str, int]) -> None:
    assert address(text) == where


@pytest.mark.parametrize("text", [":10049", "", "host", "1:2:x", "1:65536", "[]:1"])
def test_address_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty address means all of them to other programs, so it has to be written out."""
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["export", "--listen", text])
    assert "--listen: an address and a port such as" in capsys.readouterr().err


def test_address_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind((LOCALHOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.main(["export", "--listen", str(port)], both_roles()) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"nfsrdma: cannot listen on {LOCALHOST}:{port}: Address already in use")
    assert "choose another" in told


def test_command_serves_until_it_is_ended() -> None:
    """The command of this host: a missing module is a metric and no error."""
    argv = [sys.executable, "-B", str(FOLDER / "command"), "export", "--listen", "0"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        said = process.stderr.readline()
        try:
            assert said.startswith("nfsrdma: metrics at http://127.0.0.1:")
            assert "nfsrdma_up" in _get(said.split()[-1])[1]
        finally:
            process.terminate()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + 15


class Recorded:
    """A recording of events that a test gives."""

    lost = 3
    is_live = True

    def __init__(self, events: list[Event]) -> None:
        """Has the events."""
        self.events, self.filters, self.ended = events, list[str](), False

    def __enter__(self) -> Self:
        """Begins."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends."""
        self.ended = True

    def read(self) -> list[Event]:
        """Returns the events, once."""
        events, self.events = self.events, []
        return events

    def set_filter(self, text: str, _names: object) -> None:
        """Keeps the filter."""
        self.filters.append(text)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        """Begins at 0."""
        self.time = 0.0

    def __call__(self) -> float:
        """Returns the time."""
        return self.time


def _events() -> list[Event]:
    return [
        *parse([*lines(READ), *lines(GETATTR)]),
        *parse(server_lines(SERVED_CALLS)),
    ]


def _text(histograms: Histograms, form: Format = Format.TEXT) -> str:
    page = Page()
    histograms.tell(page)
    return page.text(form)


def test_latencies_by_role_and_form() -> None:
    clock, recorded = Clock(), Recorded(_events())
    histograms = Histograms(lambda: recorded, serves=True, now=clock)
    clock.time = 1
    found = values(_text(histograms))
    read = 'nfsrdma_latency_seconds_bucket{role="client",form="inline, write chunk",le='
    # The READ took 2100 us from Send to reply.
    assert found[f'{read}"0.002"}}'] == 0
    assert found[f'{read}"0.005"}}'] == 1
    assert found[f'{read}"+Inf"}}'] == 1
    name, labels = "nfsrdma_latency_seconds", 'role="client",form="inline, write chunk"'
    assert found[f"{name}_sum{{{labels}}}"] == 0.0021
    assert found[f"{name}_count{{{labels}}}"] == 1
    assert found[f'{name}_count{{role="server",form="inline, write chunk"}}'] == 1
    assert found[f'{name}_count{{role="server",form="read chunk, inline"}}'] == 1
    assert found["nfsrdma_lost_trace_events_total"] == 3


def test_latencies_add_up_over_looks() -> None:
    clock, recorded = Clock(), Recorded(_events())
    histograms = Histograms(lambda: recorded, serves=False, now=clock)
    for second in (1, 2):
        clock.time = second
        histograms.pump()
        recorded.events = _events()
    clock.time = 3
    name = 'nfsrdma_latency_seconds_count{role="client",form="inline, write chunk"}'
    assert values(_text(histograms))[name] == 3
    assert values(_text(histograms))[name] == 3


def test_sampled_calls_count_for_the_others() -> None:
    """Above some thousand events per second one call in two is sampled, and counts twice."""
    clock, recorded = Clock(), Recorded(_events() * 500)
    histograms = Histograms(lambda: recorded, serves=True, now=clock)
    clock.time = 1
    name = 'nfsrdma_latency_seconds_count{role="client",form="inline, write chunk"}'
    before = values(_text(histograms))[name]
    assert recorded.filters[0].startswith("!(task_id & ")
    one_in = int(recorded.filters[0].split("& ")[1].rstrip(")")) + 1
    recorded.events = _events()
    clock.time = 2
    assert values(_text(histograms))[name] == before + one_in


def test_histograms_are_those_of_openmetrics() -> None:
    why = "no parser of OpenMetrics: apt install python3-prometheus-client"
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason=why)
    clock = Clock()
    histograms = Histograms(lambda: Recorded(_events()), serves=True, now=clock)
    clock.time = 1
    families = parser.text_string_to_metric_families(_text(histograms, Format.OPENMETRICS))
    by_name = {family.name: family for family in families}
    buckets = [s for s in by_name["nfsrdma_latency_seconds"].samples if s.name.endswith("_bucket")]
    assert len(buckets) % (len(BOUNDS) + 1) == 0
    assert by_name["nfsrdma_latency_seconds"].type == "histogram"


def test_module_that_comes_later_or_goes() -> None:
    """The recording begins when the module is loaded, and again after it was unloaded."""
    clock, made = Clock(), list[Recorded]()
    problem = "the module is not loaded: modprobe rpcrdma"

    def record() -> Recorded:
        if not problem:
            made.append(Recorded(_events()))
            return made[-1]
        raise UsageError(problem)

    histograms = Histograms(record, serves=False, now=clock)
    assert histograms.problem == problem
    problem, clock.time = "", 1
    histograms.pump()
    assert histograms.problem == ""
    clock.time = 2
    histograms.pump()
    made[0].is_live, clock.time = False, 3
    histograms.pump()
    assert made[0].ended
    assert len(made) == 2
    histograms.close()
    assert made[1].ended


def test_latencies_are_recorded_while_the_command_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = Recorded(_events())
    names: list[str] = []

    def record(wanted: tuple[str, ...]) -> Recorded:
        names.extend(wanted)
        return recorded

    monkeypatch.setattr(command, "Recording", record)
    wish = Wish(listen=(LOCALHOST, 0), latency=True)
    assert command.export(both_roles(), wish, serves=True, serve=lambda _: None) == 0
    assert "sunrpc:svc_stats_latency" in names
    assert recorded.ended
    assert "metrics at http://" in capsys.readouterr().err


def test_request_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The server goes on."""
    host = both_roles()
    host.files["/sys/kernel/debug/rpcrdma/connections"] = SERVED
    with _serving(host) as url:
        host.files["/proc/self/mountstats"] = 1  # type: ignore[assignment]
        with pytest.raises(OSError, match="Remote end closed"):
            _get(f"{url}/metrics")
        del host.files["/proc/self/mountstats"]
        assert values(_get(f"{url}/metrics")[1])["nfsrdma_up"] == 1
    assert "nfsrdma: a request has failed: AttributeError" in capsys.readouterr().err
