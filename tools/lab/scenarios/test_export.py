# SPDX-License-Identifier: GPL-2.0
"""`nfsrdma export` in both guests under load; the parser of another project reads its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.nfsrdma import TOOL, await_recording, install
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, SERVER_ADDRESS, Guest, Pair

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs_ours,
    pytest.mark.needs_our_server,
    pytest.mark.server,
]

PEER = f"{SERVER_ADDRESS}:20049"
PORT = 10049
#: As the unit does: root without capabilities can read the kernel's files.
BARE = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
#: A reader of OpenMetrics.
SCRAPE = f"""
import urllib.request as u
accept = {{"Accept": "application/openmetrics-text;version=1.0.0"}}
answer = u.urlopen(u.Request("http://127.0.0.1:{PORT}/metrics", headers=accept), timeout=60)
assert answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers
print(answer.read().decode(), end="")
"""
#: READs and WRITEs, until /run/busy goes.
BUSY = f"""
touch /run/busy
loop() {{ while [ -e /run/busy ]; do "$@"; done; }}
reading() {{ dd if={MOUNT_POINT}/f of=/dev/null bs=64k count=16 iflag=direct; }}
writing() {{ dd if=/dev/zero of={MOUNT_POINT}/w bs=64k count=8 oflag=direct; }}
for what in reading writing; do (loop $what) > /dev/null 2>&1 & done
"""
IDLE = "rm -f /run/busy; timeout 60 sh -c 'while pgrep -x dd > /dev/null; do sleep 0.2; done'"

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def tools(pair: Pair) -> Pair:
    """The pair with the command on both guests, and a file of 1 MiB."""
    install(pair).server.sh("rm -rf /srv/export/*; head -c 1M /dev/zero > /srv/export/f")
    for guest in (pair.client, pair.server):
        guest.write("/run/scrape.py", SCRAPE.encode())
    return pair


@contextmanager
def _exporting(guest: Guest, options: str = "") -> Iterator[None]:
    """Runs the service of a guest without capabilities."""
    command = f"echo $$ > /run/exporter; exec {BARE} {TOOL} export --listen {PORT} {options}"
    service = guest.vm.start(command)
    try:
        ready = f"until grep -q :{PORT:04X} /proc/net/tcp; do sleep 0.2; done"
        guest.sh(ready, timeout=90)
        yield
    finally:
        guest.sh("kill $(cat /run/exporter)")
        done = guest.vm.agent.wait(service, 60)
    assert done.status == 128 + 15, done


def _parsed(text: str) -> Values:
    """Returns the values that the other project's parser reads."""
    why = "no parser of OpenMetrics: apt install python3-prometheus-client"
    parser: Any = pytest.importorskip("prometheus_client.openmetrics.parser", reason=why)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def _scrape(guest: Guest) -> Values:
    return _parsed(guest.sh("python3 /run/scrape.py", timeout=120))


def _value(values: Values, name: str, **labels: str) -> float:
    """Returns the sum of the samples of a name that have these labels."""
    wanted = set(labels.items())
    found = [value for (known, have), value in values.items() if known == name and wanted <= have]
    assert found, (name, labels)
    return sum(found)


def _looks(guest: Guest) -> tuple[Values, Values]:
    """Returns the metrics before and after some seconds of load."""
    before = _scrape(guest)
    guest.sh("sleep 3")
    return before, _scrape(guest)


def _grows(looks: tuple[Values, Values], name: str, **labels: str) -> None:
    before, after = (_value(look, name, **labels) for look in looks)
    assert after > before, (name, labels, before)


def test_both_roles_under_load(tools: Pair) -> None:
    """Connections, counters and latencies of a client and of its server."""
    tools.mount("4.2", options="nconnect=2")
    with _exporting(tools.client, "--latency"), _exporting(tools.server, "--latency"):
        for guest in (tools.client, tools.server):
            await_recording(guest)
        tools.client.sh(BUSY)
        try:
            client, server = _looks(tools.client), _looks(tools.server)
        finally:
            tools.client.sh(IDLE, timeout=90)
    device = {"device": f"{tools.setup.link}0", "port": "1"}
    for (_, look), labels in (
        (client, {"role": "client", "peer": PEER}),
        (server, {"role": "server", "peer": CLIENT_ADDRESS}),
    ):
        assert _value(look, "nfsrdma_up") == 1
        assert _value(look, "nfsrdma_connections", version="2", **labels, **device) == 2
        assert _value(look, "nfsrdma_credits", **labels) >= 2 * 16
        assert _value(look, "nfsrdma_inline_threshold_bytes", direction="call", **labels) == 4096
        assert _value(look, "nfsrdma_breaches_total", role=labels["role"]) == 0
        print(f"a look took {_value(look, 'nfsrdma_collect_seconds') * 1000:.0f} ms (emulated)")
    for operation in ("READ", "WRITE"):
        _grows(client, "nfsrdma_client_operations_total", operation=operation)
    _grows(client, "nfsrdma_client_moved_bytes_total", peer=PEER, nfs="4.2", way="chunks")
    _grows(client, "nfsrdma_client_chunk_segments_total", chunk="read")
    _grows(client, "nfsrdma_latency_seconds_count", role="client", form="inline, write chunk")
    _grows(server, "nfsrdma_server_received_messages_total")
    for direction in ("read", "write"):
        _grows(server, "nfsrdma_server_segments_total", direction=direction)
    _grows(server, "nfsrdma_latency_seconds_count", role="server", form="read chunk, inline")
    assert _value(server[1], "nfsrdma_server_listeners", rdma_port="20049") == 1
    assert _value(server[1], "nfsrdma_server_threads") == tools.setup.threads
    tools.umount()


def test_reconnections_and_a_module_that_goes(tools: Pair) -> None:
    """The reason of a loss, the back-off of a client, and a module that is loaded again."""
    tools.mount("4.2")
    with _exporting(tools.client, "--latency"):
        await_recording(tools.client)
        assert not any(name.startswith("nfsrdma_reconnects") for name, _ in _scrape(tools.client))
        tools.stop_nfsd()
        tools.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 & sleep 4")
        away = _scrape(tools.client)
        assert _value(away, "nfsrdma_transports_down", peer=PEER) == 1
        assert _value(away, "nfsrdma_connect_failures", peer=PEER) > 0
        assert _value(away, "nfsrdma_connect_failing_seconds", peer=PEER) > 0
        tools.start_nfsd()
        tools.client.sh(f"ls {MOUNT_POINT}", timeout=120)
        back = _scrape(tools.client)
        # Over iWARP work requests fail before the end of the connection is reported.
        reasons = {
            dict(labels)["reason"]: value
            for (name, labels), value in back.items()
            if name == "nfsrdma_reconnects_total"
        }
        assert reasons in ({"peer": 1}, {"failed": 1}), reasons
        tools.umount()
        tools.unload()
        try:
            gone = _scrape(tools.client)
        finally:
            tools.load()
        assert _value(gone, "nfsrdma_up") == 0
        text = "the module is not loaded: modprobe rpcrdma"
        assert _value(gone, "nfsrdma_problem_info", text=text) == 1
        tools.mount("4.2")
        # The recording begins again.
        await_recording(tools.client)
        before = _scrape(tools.client)
        tools.client.sh(f"stat --cached=never {MOUNT_POINT}/f")
        after = _scrape(tools.client)
        assert _value(after, "nfsrdma_up") == 1
        name = "nfsrdma_latency_seconds_count"
        had = sum(value for (known, _), value in before.items() if known == name)
        assert _value(after, name, role="client") > had
    tools.umount()


def test_textfile(tools: Pair) -> None:
    """Another user reads the file; it has the same counters as mountstats."""
    tools.mount("4.2")
    direct = "bs=64k count=4 iflag=direct 2> /dev/null"
    tools.client.sh(f"dd if={MOUNT_POINT}/f of=/dev/null {direct}")
    file = "/run/collector/nfsrdma.prom"
    done = tools.client.run(f"{TOOL} export --textfile {file}")
    assert done.stderr.decode().endswith("make the directory first: mkdir -p /run/collector\n")
    assert done.status == 1
    tools.client.sh(f"mkdir -p /run/collector; {BARE} {TOOL} export --textfile {file}")
    assert tools.client.sh("ls -A /run/collector") == "nfsrdma.prom\n"
    told = tools.client.sh(f"setpriv --reuid=65534 --clear-groups cat {file}")
    assert 'nfsrdma_client_operations_total{operation="READ"} 4\n' in told
    assert _parsed(tools.client.sh(f"{TOOL} export"))
    tools.umount()
