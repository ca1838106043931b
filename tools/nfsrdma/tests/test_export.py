# SPDX-License-Identifier: GPL-2.0
"""The metrics of ``nfsrdma export``: families, labels, formats, and what other programs read."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from fake import DOWN, SERVED, UP, FakeHost
from nfsrdma.connections import parse
from nfsrdma.export import command, reconnects
from nfsrdma.export.collect import Collector
from nfsrdma.export.command import Wish
from nfsrdma.export.metrics import Format, Page
from test_top import STATS

from nfsrdma import cli, mountstats

CONNECTIONS = "/sys/kernel/debug/rpcrdma/connections"
SYSCTL = "/proc/sys/sunrpc"


def both_roles() -> FakeHost:
    """A host with a mount, a mount whose server has gone, and a client of its own."""
    host = FakeHost()
    host.files |= {
        CONNECTIONS: UP + DOWN + SERVED,
        mountstats.FILE: STATS,
        "/proc/fs/nfsd/portlist": "rdma 20049\nrdma 20049\n",
        "/proc/fs/nfsd/threads": "8\n",
        f"{SYSCTL}/svc_rdma/rdma_stat_recv": "100\n",
        f"{SYSCTL}/svc_rdma/rdma_stat_read": "20\n",
        f"{SYSCTL}/svc_rdma/rdma_stat_write": "30\n",
        f"{SYSCTL}/svc_rdma/rdma_stat_sq_starve": "1\n",
        f"{SYSCTL}/svc_rdma/rdma_stat_limited": "2\n",
        f"{SYSCTL}/svc_rdma/rdma_stat_waited": "6\n",
        f"{SYSCTL}/svc_rdma/rdma_stat_unmapped": "3\n",
        f"{SYSCTL}/svc_rdma/max_requests": "128\n",
        f"{SYSCTL}/svc_rdma/traffic_class": "-1\n",
        "/sys/kernel/debug/swiotlb/io_tlb_nslabs": "32768\n",
        "/sys/kernel/debug/swiotlb/io_tlb_used": "16\n",
    }
    return host


def text(host: FakeHost, form: Format = Format.TEXT) -> str:
    return Collector(host).collect().text(form)


def values(told: str) -> dict[str, float]:
    """Returns the values of a text by name and labels."""
    lines = (line.rpartition(" ") for line in told.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


CLIENT = 'role="client",peer="10.0.0.1:20049",device="rxe0",port="1"'
SERVER = 'role="server",peer="10.0.0.9",device="rxe0",port="1"'
AWAY = 'role="client",peer="10.0.0.3:20049"'
MOUNT = 'peer="10.0.0.1:20049",nfs="4.2"'


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nfsrdma_up", 1),
        ('nfsrdma_module_info{version="0.1.0"}', 1),
        (f'nfsrdma_connections{{{CLIENT},version="2"}}', 1),
        (f'nfsrdma_connections{{{SERVER},version="2"}}', 1),
        (f"nfsrdma_credits{{{CLIENT}}}", 64),
        (f"nfsrdma_credit_limit{{{SERVER}}}", 128),
        (f"nfsrdma_calls_in_progress{{{CLIENT}}}", 5),
        (f'nfsrdma_calls_by_form{{{CLIENT},form="reply"}}', 4),
        (f'nfsrdma_inline_threshold_bytes{{{CLIENT},direction="reply"}}', 8192),
        (f'nfsrdma_regions{{{CLIENT},state="used"}}', 10),
        (f"nfsrdma_receives_posted{{{SERVER}}}", 175),
        (f"nfsrdma_transports_down{{{AWAY}}}", 1),
        (f"nfsrdma_connect_failures{{{AWAY}}}", 4),
        (f"nfsrdma_connect_failing_seconds{{{AWAY}}}", 75),
        (f"nfsrdma_next_attempt_seconds{{{AWAY}}}", 9),
        (f"nfsrdma_connects_total{{{AWAY}}}", 1),
        (f"nfsrdma_transport_probes{{{AWAY}}}", 2),
        (f"nfsrdma_client_sent_calls_total{{{MOUNT}}}", 57),
        (f'nfsrdma_client_chunk_segments_total{{{MOUNT},chunk="write"}}', 14),
        (f'nfsrdma_client_moved_bytes_total{{{MOUNT},way="chunks"}}', 0),
        ('nfsrdma_client_operations_total{operation="READ"}', 10),
        ('nfsrdma_client_operation_rtt_seconds_total{operation="READ"}', 0.03),
        ('nfsrdma_client_operation_bytes_total{operation="READ",direction="received"}', 650000),
        ("nfsrdma_server_received_messages_total", 100),
        ("nfsrdma_server_limited_replies_total", 2),
        ("nfsrdma_server_memory_waits_total", 6),
        ("nfsrdma_server_unmapped_calls_total", 3),
        ('nfsrdma_server_segments_total{direction="write"}', 30),
        ('nfsrdma_server_listeners{rdma_port="20049"}', 1),
        ("nfsrdma_server_threads", 8),
        ('nfsrdma_breaches_total{role="server",kind="slow"}', 0),
        ('nfsrdma_setting{name="svc_rdma.max_requests"}', 128),
        ('nfsrdma_setting{name="svc_rdma.traffic_class"}', -1),
        ('nfsrdma_bounce_buffer_bytes{state="used"}', 32768),
    ],
)
def test_value(name: str, value: float) -> None:
    assert values(text(both_roles()))[name] == value


def test_clients_that_return_make_no_new_series() -> None:
    """A client has another port and its line another number with each connection."""
    host, seen = FakeHost(), set()
    for number in range(3, 30):
        line = SERVED.replace("id=3", f"id={number}").replace(":51 ", f":{number + 700} ")
        host.files[CONNECTIONS] = line
        seen |= set(values(text(host)))
    assert seen == set(values(text(host)))


def test_transports_of_one_peer_are_added_up() -> None:
    host = FakeHost()
    second = UP.replace("id=1", "id=2").replace("call_bytes=4096", "call_bytes=1024")
    host.files[CONNECTIONS] = UP + second
    found = values(text(host))
    assert found[f"nfsrdma_credits{{{CLIENT}}}"] == 128
    assert found[f'nfsrdma_connections{{{CLIENT},version="2"}}'] == 2
    assert found[f'nfsrdma_inline_threshold_bytes{{{CLIENT},direction="call"}}'] == 1024


def test_mounts_that_share_transports_count_once() -> None:
    host = both_roles()
    host.files["/proc/self/mountinfo"] += host.files["/proc/self/mountinfo"].replace(
        "/mnt/nfs", "/mnt/too"
    )
    host.files[mountstats.FILE] = STATS + STATS.replace("/mnt/nfs", "/mnt/too")
    found = values(text(host))
    assert found[f"nfsrdma_client_sent_calls_total{{{MOUNT}}}"] == 57
    assert found['nfsrdma_client_operations_total{operation="READ"}'] == 10


def test_no_attempt_is_planned() -> None:
    host = FakeHost()
    host.files[CONNECTIONS] = DOWN.replace("next_attempt_s=9", "next_attempt_s=-1")
    assert "next_attempt" not in text(host)


def _unloaded(host: FakeHost) -> None:
    host.remove("/sys/module/rpcrdma")
    host.remove("/sys/kernel/debug")


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (_unloaded, "the module is not loaded: modprobe rpcrdma"),
        (
            lambda host: host.denied.add(CONNECTIONS),
            "only root may read the connections: run the command with sudo",
        ),
    ],
)
def test_connections_that_cannot_be_seen(prepare: Any, said: str) -> None:
    host = both_roles()
    prepare(host)
    found = values(text(host))
    assert found["nfsrdma_up"] == 0
    assert found[f'nfsrdma_problem_info{{text="{said}"}}'] == 1
    # The kernel has its counters whatever module is loaded.
    assert found['nfsrdma_client_operations_total{operation="READ"}'] == 10


def test_labels_are_escaped() -> None:
    page = Page()
    page.gauge("odd", "Odd.").add(1, {"name": 'a"b\\c\nd{}'})
    assert page.text(Format.TEXT).splitlines()[-1] == r'nfsrdma_odd{name="a\"b\\c\nd{}"} 1'


def test_openmetrics_differs_from_the_older_format() -> None:
    host = both_roles()
    new, old = text(host, Format.OPENMETRICS), text(host)
    assert new.endswith("\n# EOF\n")
    assert "# EOF" not in old
    assert "# TYPE nfsrdma_connects counter\n" in new
    assert "# TYPE nfsrdma_connects_total counter\n" in old
    assert "# UNIT nfsrdma_client_offered_bytes bytes\n" in new
    assert "# TYPE nfsrdma_module_info gauge\n" in old


def test_promtool_accepts_the_metrics() -> None:
    if not shutil.which("promtool"):
        pytest.skip("no promtool: apt install prometheus")
    told = text(both_roles())
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=told, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_parser_of_openmetrics_reads_the_same() -> None:
    """The parser of another project finds each family with its unit, and each value."""
    why = "no parser of OpenMetrics: apt install python3-prometheus-client"
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason=why)
    told = text(both_roles(), Format.OPENMETRICS)
    families = list(parser.text_string_to_metric_families(told))
    read = {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    assert len(read) == len(values(told))
    assert read["nfsrdma_server_received_messages_total", ()] == 100
    units = {family.name: family.unit for family in families}
    assert units["nfsrdma_client_moved_bytes"] == "bytes"
    assert units["nfsrdma_collect_seconds"] == "seconds"
    assert all(family.documentation for family in families)


PEER = "10.0.0.1:20049"


def _look(before: reconnects.Seen | None, lines: str) -> reconnects.Seen:
    return reconnects.counted(before, parse(lines))


def _lost(connects: int, lost: str) -> str:
    return UP.replace("connects=1 lost=none", f"connects={connects} lost={lost}")


def test_reconnections_count_for_the_latest_loss() -> None:
    first = _look(_look(None, UP), _lost(3, "device"))
    assert first.counts == {(PEER, "device"): 2}
    # The loss alone is no reconnection.
    assert _look(first, _lost(3, "peer")) == first
    two = _lost(4, "peer")
    assert _look(first, two).counts == {(PEER, "device"): 2, (PEER, "peer"): 1}
    # Another transport of the same peer has not lost a connection.
    second = UP.replace("id=1", "id=4")
    assert _look(first, second + two).counts == {(PEER, "device"): 2, (PEER, "peer"): 1}


def test_reconnections_before_the_first_look_do_not_count() -> None:
    """They may be old, and a restart of the exporter is no reason for an alert."""
    first = _look(None, _lost(9, "device"))
    assert first.counts == {}
    assert _look(first, _lost(10, "peer")).counts == {(PEER, "peer"): 1}


def test_reconnections_of_a_mount_between_two_looks_count() -> None:
    assert _look(_look(None, SERVED), _lost(3, "device")).counts == {(PEER, "device"): 2}


def test_transport_that_goes_takes_no_reconnections_with_it() -> None:
    """Nor is another reason charged with those of the transports that remain."""
    other = UP.replace("id=1", "id=4")
    both = _look(_look(None, UP + other), _lost(6, "device") + other)
    assert both.counts == {(PEER, "device"): 5}
    after = _look(both, other.replace("connects=1 lost=none", "connects=3 lost=peer"))
    assert after.counts == both.counts
    again = _look(after, other.replace("connects=1 lost=none", "connects=4 lost=peer"))
    assert again.counts == {(PEER, "device"): 5, (PEER, "peer"): 1}


def test_peers_without_a_transport_are_forgotten() -> None:
    before = reconnects.Seen({("10.0.0.5:20049", "peer"): 9}, {"10.0.0.5:20049": 9})
    assert _look(before, UP).counts == {}


def test_first_connection_is_no_reconnection() -> None:
    assert _look(_look(None, ""), UP + SERVED).counts == {}
    assert "nfsrdma_reconnects" not in text(both_roles())


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export"], both_roles()) == 0
    assert capsys.readouterr().out.endswith("# EOF\n")


def test_textfile(tmp_path: Path) -> None:
    """Any user may read it, and its reconnections are those that earlier files have counted."""
    file, host = tmp_path / "nfsrdma.prom", both_roles()
    for connects, lost in ((2, "closed"), (4, "device"), (5, "peer")):
        host.files[CONNECTIONS] = _lost(connects, lost)
        assert cli.main(["export", "--textfile", str(file)], host) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["nfsrdma.prom"]
    assert file.stat().st_mode & 0o777 == 0o644
    told = values(file.read_text())
    assert told[f'nfsrdma_transport_reconnects{{role="client",peer="{PEER}"}}'] == 4
    labels = f'role="client",peer="{PEER}",reason'
    assert told[f'nfsrdma_reconnects_total{{{labels}="device"}}'] == 2
    assert told[f'nfsrdma_reconnects_total{{{labels}="peer"}}'] == 1
    assert "closed" not in file.read_text()


def test_textfile_of_a_look_that_has_seen_no_connections(tmp_path: Path) -> None:
    """The next look is a first one."""
    file, host = tmp_path / "nfsrdma.prom", both_roles()
    for denied in ({CONNECTIONS}, set()):
        host.denied = denied
        host.files[CONNECTIONS] = _lost(9, "device")
        assert cli.main(["export", "--textfile", str(file)], host) == 0
    assert "nfsrdma_reconnects" not in file.read_text()


def test_textfile_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that has the earlier file open keeps it, and a failure leaves it as it was."""
    file = tmp_path / "nfsrdma.prom"
    command.write(file, "earlier\n")
    with file.open() as reader:
        command.write(file, "later\n")
        assert reader.read() == "earlier\n"
    assert file.read_text() == "later\n"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command.os, "fchmod", full)
    with pytest.raises(command.UsageError, match=r"cannot write .*: No space left on device$"):
        command.write(file, "last\n")
    assert file.read_text() == "later\n"
    assert [path.name for path in tmp_path.iterdir()] == ["nfsrdma.prom"]


def test_textfile_follows_no_link(tmp_path: Path) -> None:
    """Another user who may write to the directory can foresee the name of the part."""
    file, victim = tmp_path / "nfsrdma.prom", tmp_path / "victim"
    victim.write_text("important\n")
    victim.chmod(0o600)
    (tmp_path / f".nfsrdma.prom.{os.getpid()}").symlink_to(victim)
    command.write(file, "metrics\n")
    assert victim.read_text() == "important\n"
    assert victim.stat().st_mode & 0o777 == 0o600
    assert not file.is_symlink()
    assert file.read_text() == "metrics\n"


def test_textfile_in_a_directory_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gone/nfsrdma.prom"
    assert cli.main(["export", "--textfile", str(file)], both_roles()) == 1
    assert f"make the directory first: mkdir -p {tmp_path}/gone\n" in capsys.readouterr().err


def test_textfile_in_a_directory_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root, who runs the tests, may do all, so the calls refuse as they do for other users."""

    def refuse(*_: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("open", "stat", "unlink", "read_text"):
        monkeypatch.setattr(Path, name, refuse)
    file = str(tmp_path / "closed/nfsrdma.prom")
    assert cli.main(["export", "--textfile", file], both_roles()) == 1
    assert capsys.readouterr().err == f"nfsrdma: cannot write {file}: Permission denied\n"


@pytest.mark.parametrize("other", [[], ["--textfile", "x"]])
def test_latencies_need_a_recording(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", "--latency", *other], both_roles()) == 1
    assert "add --listen" in capsys.readouterr().err


def test_a_host_with_many_transports_is_cheap() -> None:
    """A thousand clients, each with its own series."""
    host = both_roles()
    host.files[CONNECTIONS] = "".join(
        SERVED.replace("10.0.0.9", f"10.0.{number // 250}.{number % 250}") for number in range(1000)
    )
    begin = time.process_time()
    told = text(host)
    took = time.process_time() - begin
    print(f"1000 transports: {took * 1000:.0f} ms, {len(told)} bytes")
    assert len(values(told)) > 20_000
    assert took < 5


def test_default_is_to_print() -> None:
    assert Wish() == Wish(None, "", False)
