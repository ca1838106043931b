# SPDX-License-Identifier: GPL-2.0
"""The dashboard, the alerts and the units that the package installs beside the command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from nfsrdma.export.collect import Collector
from nfsrdma.export.latency import Histograms
from nfsrdma.export.metrics import Format, Page
from test_cli import FOLDER
from test_export import both_roles, text
from test_export_serve import Clock, Recorded, _events

from nfsrdma import cli

ALERTS = FOLDER / "monitoring/alerts.yml"
DASHBOARD = json.loads((FOLDER / "monitoring/dashboard.json").read_text())
UNITS = sorted((FOLDER / "units").iterdir())
GUIDE = FOLDER.parents[1] / "Documentation/metrics.rst"


def _promtool(*argv: str | Path) -> str:
    """Returns what promtool says, if it is not content."""
    if not shutil.which("promtool"):
        pytest.skip("no promtool: apt install prometheus")
    done = subprocess.run(["promtool", *argv], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def _names() -> set[str]:
    """Returns the names of the metrics of a host with both roles and all that may go wrong."""
    host, clock, page = both_roles(), Clock(), Page()
    collector = Collector(host)
    told = collector.collect().text(Format.TEXT)
    path = "/sys/kernel/debug/rpcrdma/connections"
    host.files[path] = host.files[path].replace("connects=1 lost=none", "connects=2 lost=peer")
    for name in ("padded", "done"):
        host.files[f"/proc/sys/sunrpc/svc_rdma/rdma_stat_{name}"] = "0\n"
    told += collector.collect().text(Format.TEXT)
    host.denied.add(path)
    histograms = Histograms(lambda: Recorded(_events()), serves=True, now=clock)
    clock.time = 1
    histograms.tell(page)
    told += text(host) + page.text(Format.TEXT)
    return set(re.findall(r"^# TYPE (\w+)", told, re.M))


def _exported(expression: str) -> None:
    """Checks that all metrics of an expression exist."""
    used = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bnfsrdma_\w+", expression)}
    assert used
    assert used <= _names()


PANELS: list[dict[str, Any]] = [p for p in DASHBOARD["panels"] if p["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_panel_shows_metrics_that_exist(panel: dict[str, Any]) -> None:
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        _exported(target["expr"])


def test_panels_do_not_overlap() -> None:
    for one, other in combinations(DASHBOARD["panels"], 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, (one["title"], other["title"])
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_prometheus_takes_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    rules = []
    for panel in PANELS:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
            rules.append({"record": f"panel:{len(rules)}", "expr": expr})
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert _promtool("check", "rules", file) == ""


def test_prometheus_takes_the_alerts() -> None:
    assert _promtool("check", "rules", ALERTS) == ""


def test_alerts_use_metrics_that_exist() -> None:
    text = ALERTS.read_text()
    assert len(re.findall("alert: ", text)) == 6
    for expression in re.findall(r"expr: (?:>-\n)?((?:.+\n)+?) +(?:for|labels):", text):
        _exported(expression)


_WORDS = {5: "five", 6: "six", 7: "seven"}
_INSTANCE = 'instance="a"'
_LABELS = f'{_INSTANCE},role="client"'
#: For each alert: series, the values that raise it, those that do not, and labels of the alert.
_RAISED = {
    "NfsRdmaNotConnected": (
        f'nfsrdma_connect_failing_seconds{{{_LABELS},peer="s:1"}}',
        "50+30x40",
        "30 30 _x40",
        {"severity": "critical", "peer": "s:1"},
    ),
    "NfsRdmaSilentServer": (
        f'nfsrdma_silent_intervals{{{_LABELS},peer="s:1",device="d",port="1"}}',
        "0+3x40",
        "0 5 0 5x40",
        {"severity": "critical", "peer": "s:1"},
    ),
    "NfsRdmaConnectionsLost": (
        f'nfsrdma_reconnects_total{{{_LABELS},peer="s:1",reason="peer"}}',
        "0+1x40",
        "2x40",
        {"severity": "warning", "peer": "s:1", "reason": "peer"},
    ),
    "NfsRdmaCallsRefused": (
        f"nfsrdma_server_unmapped_calls_total{{{_INSTANCE}}}",
        "0x10 1x30",
        "1x40",
        {"severity": "warning"},
    ),
    "NfsRdmaBreaches": (
        f'nfsrdma_breaches_total{{{_LABELS},kind="session"}}',
        "0x10 1x30",
        "1x40",
        {"severity": "warning", "role": "client", "kind": "session"},
    ),
    "NfsRdmaModuleMissing": (
        f"nfsrdma_up{{{_INSTANCE}}}",
        "1x4 0x40",
        # Another module takes less time to load.
        "1x13 0x40",
        {"severity": "warning"},
    ),
}


def _test_of(name: str, series: str, values: str, labels: dict[str, str] | None) -> dict[str, Any]:
    wanted: list[dict[str, Any]] = [{"exp_labels": {"instance": "a"} | labels}] if labels else []
    alert = {"eval_time": "10m", "alertname": name, "exp_alerts": wanted}
    given = [{"series": series, "values": values}]
    return {"interval": "30s", "input_series": given, "alert_rule_test": [alert]}


@pytest.mark.parametrize("name", _RAISED)
def test_alert_is_raised(name: str, tmp_path: Path) -> None:
    """Prometheus evaluates it over ten minutes of values that are wrong, and of others."""
    rules = re.sub(r"\n {8}annotations:\n(?: {10}.*\n)+", "\n", ALERTS.read_text())
    (tmp_path / "alerts.yml").write_text(rules)
    series, wrong, right, labels = _RAISED[name]
    tests = [_test_of(name, series, wrong, labels), _test_of(name, series, right, None)]
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": ["alerts.yml"], "tests": tests}))
    assert _promtool("test", "rules", file) == ""


def test_every_alert_is_tested_and_described() -> None:
    """The guide lists them in the order of the file."""
    alerts = re.findall(r"alert: (\w+)", ALERTS.read_text())
    assert list(_RAISED) == alerts
    assert re.findall(r"^``(NfsRdma\w+)``$", GUIDE.read_text(), re.M) == alerts
    assert f"and {_WORDS[len(alerts)]} alerts for Prometheus" in GUIDE.read_text()


@pytest.mark.parametrize("unit", [u for u in UNITS if u.suffix == ".service"], ids=lambda u: u.name)
def test_unit_runs_the_command(unit: Path) -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.M))
    options = dict(re.findall(r'^Environment="(\w+)=(.*)"$', unit.read_text(), re.M))
    program, *arguments = (
        settings["ExecStart"].replace("$OPTIONS", options.get("OPTIONS", "")).split()
    )
    assert program == "/usr/sbin/nfsrdma"
    chosen = cli.parser().parse_args(arguments)
    assert chosen.listen or chosen.textfile


def test_service_starts_after_nfsd() -> None:
    """Its histograms have the calls of a server only if nfsd listens when the command starts."""
    unit = (FOLDER / "units/nfsrdma-export.service").read_text()
    assert re.search(r"^After=.*\bnfs-server\.service\b", unit, re.M)


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze: apt install systemd")
    for unit in UNITS:
        # The command is not installed on this machine.
        copy = unit.read_text().replace("/usr/sbin/nfsrdma", "/bin/true")
        (tmp_path / unit.name).write_text(copy.replace("Documentation=man:nfsrdma(8)\n", ""))
    argv = ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())]
    done = subprocess.run(argv, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if "nfsrdma" in line]
    assert (done.returncode, told) == (0, [])


def test_package_has_them() -> None:
    listed = (FOLDER.parents[1] / "debian/rpcrdma-tools.install").read_text()
    for unit in UNITS:
        assert f"tools/nfsrdma/units/{unit.name} usr/lib/systemd/system\n" in listed
    assert "tools/nfsrdma/monitoring usr/share/rpcrdma-tools\n" in listed


@pytest.mark.parametrize("action", ["remove", "purge", "upgrade", "failed-upgrade"])
def test_removal_of_the_package_removes_the_file(action: str, tmp_path: Path) -> None:
    """node_exporter would export its values without end; an upgrade keeps it."""
    script = (FOLDER.parents[1] / "debian/rpcrdma-tools.postrm").read_text()
    unit = (FOLDER / "units/nfsrdma-textfile.service").read_text()
    (file,) = re.findall(r"--textfile (\S+)$", unit, re.M)
    other = tmp_path / "node.prom"
    for path in (tmp_path / "nfsrdma.prom", other):
        path.write_text("x 1\n")
    assert script.count(file) == 1
    text = script.replace(file, str(tmp_path / "nfsrdma.prom"))
    # The second call finds nothing to remove.
    for _ in range(2):
        subprocess.run(["sh", "-c", text, "postrm", action], check=True)
    is_kept = action not in ("remove", "purge")
    assert (tmp_path / "nfsrdma.prom").exists() == is_kept
    assert other.exists()


def test_guide_describes_each_metric() -> None:
    terms = re.findall(r"^(``nfsrdma_.*)$", GUIDE.read_text(), re.M)
    listed = [name for line in terms for name in re.findall(r"nfsrdma_\w+", line)]
    assert sorted(listed) == sorted(_names())
