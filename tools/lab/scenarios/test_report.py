# SPDX-License-Identifier: GPL-2.0
"""`nfsrdma report` and `top` over a restart of nfsd, and the report of a server."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lab.nfsrdma import TOOL, await_recording, install
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, SERVER_ADDRESS, Guest, Pair

pytestmark = [pytest.mark.full, pytest.mark.needs_ours]

#: Long READs by three processes, until /run/busy goes: few events, and calls that are in progress.
BUSY = f"""
touch /run/busy
for n in 1 2 3; do
    (while [ -e /run/busy ]; do
        dd if={MOUNT_POINT}/f of=/dev/null bs=1M count=8 iflag=direct 2> /dev/null
    done) > /dev/null 2>&1 &
done
"""
#: Ends them, and waits for their last READs.
IDLE = "rm /run/busy; while pgrep -x dd > /dev/null; do sleep 0.1; done"
#: The recorded command waits for this file.
DONE = "/run/recorded"
WAIT = f"rm -f {DONE}; until [ -e {DONE} ]; do sleep 0.1; done; sleep 0.5"
READ = f"dd if={MOUNT_POINT}/f of=/dev/null bs=1M count=1 iflag=direct 2> /dev/null"


@pytest.fixture
def tools(pair: Pair) -> Pair:
    """The pair with the command on both guests, a mount, and a file of 8 MiB."""
    install(pair).server.sh("rm -rf /srv/export/*; head -c 8M /dev/zero > /srv/export/f")
    pair.mount("4.2")
    return pair


def _recording(guest: Guest, page: str) -> tuple[str, dict[str, Any]]:
    """Returns the text of a page, and the recording in it."""
    text = guest.read(page)
    found = re.search(r"<script type=application/json id=recording>(.*?)</script>", text, re.S)
    assert found
    return text, json.loads(found[1])


def test_reconnection_is_on_the_page(tools: Pair) -> None:
    """The recording has the loss and the new connection; the page loads nothing from elsewhere."""
    tools.client.sh(BUSY)
    try:
        report = tools.client.vm.start(f"{TOOL} report -o /run/r.html -- sh -c '{WAIT}; exit 3'")
        await_recording(tools.client)
        tools.restart_nfsd()
        tools.client.sh(f"{READ}; touch {DONE}", timeout=120)
        done = tools.client.vm.agent.wait(report, 200)
    finally:
        tools.client.sh(IDLE)
    assert done.status == 3, done.stderr.decode()
    text, recording = _recording(tools.client, "/run/r.html")
    states = [event for event in recording["events"] if event["event"] == "conn_state"]
    assert any(" up -> " in event["text"] for event in states), states
    assert any(event["text"].endswith("-> up") for event in states), states
    assert text.count('class="mark"') >= 2
    looked = [conn for look in recording["connections"] for conn in look["connections"]]
    assert {conn["connects"] for conn in looked if conn["peer"].startswith(SERVER_ADDRESS)} >= {2}
    assert "<th>sent again</th>" in text
    assert not re.search(r"""(?:src|href|xlink:href)\s*=|url\(|@import|https?:""", text)
    tools.umount()


def test_top_counts_what_is_sent_again(tools: Pair) -> None:
    """Calls that were in progress when nfsd ended are sent again over the next connection."""
    tools.client.sh(BUSY)
    try:
        # The restart, and what follows, is within the interval.
        seconds = round(30 * tools.patience)
        top = tools.client.vm.start(f"{TOOL} top --count 1 --interval {seconds} --json")
        await_recording(tools.client)
        tools.restart_nfsd()
        sample = json.loads(tools.client.vm.agent.wait(top, 200).stdout)
    finally:
        tools.client.sh(IDLE)
    again = {name: counts["retransmissions"] for name, counts in sample["operations"].items()}
    print(again)
    assert again["READ"] > 0
    assert sample["connections"][0]["connects"] == 2
    tools.umount()


@pytest.mark.server
def test_report_of_a_server(tools: Pair) -> None:
    """The calls on the server's page are those that the client has made."""
    report = tools.server.vm.start(f"{TOOL} report -o /run/s.html -- sh -c '{WAIT}'")
    await_recording(tools.server)
    direct = "bs=64k 2>/dev/null"
    tools.client.sh(
        f"dd if={MOUNT_POINT}/f of=/dev/null iflag=direct count=8 {direct};"
        f" dd if=/dev/zero of={MOUNT_POINT}/w oflag=direct count=5 {direct}"
    )
    tools.server.sh(f"touch {DONE}")
    assert tools.server.vm.agent.wait(report, 120).status == 0
    text, recording = _recording(tools.server, "/run/s.html")
    counted = {
        (row["operation"].partition(" ")[2], row["form"]): row["calls"]
        for row in recording["served"]
    }
    print(counted)
    assert counted["READ", "inline, write chunk"] == 8
    assert counted["WRITE", "read chunk, inline"] == 5
    assert recording["served_sizes"]["65536"] == 13
    assert recording["operations"] == []
    (write,) = (row for row in recording["served"] if row["operation"].endswith(" WRITE"))
    assert 0 < write["rdma_reads_us"] <= write["median_us"] <= write["max_us"]
    assert "READ: inline, write chunk" in text
    if recording["connections"]:
        assert CLIENT_ADDRESS in json.dumps(recording["connections"][0])
    tools.umount()
