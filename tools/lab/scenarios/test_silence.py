# SPDX-License-Identifier: GPL-2.0
"""The client waits for a reply, and its server is slow or has lost the connection.

An NFSv3 client has no lease to renew: while a call waits it sends nothing else. The scenarios stop
mountd. nfsd has to ask mountd about the export, so it keeps the call until mountd goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import connections, mountstats, settings, tracing
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

pytestmark = pytest.mark.needs_ours
EVENTS = ("rpcrdma:xprtrdma_probe", "rpcrdma:xprtrdma_wc_probe")


@contextmanager
def _slow_server(pair: Pair) -> Iterator[int]:
    """Makes the server slow and the client wait for a reply; yields the waiting process."""
    pair.server.sh("rm -rf /srv/export/*; echo there > /srv/export/f")
    pair.mount("3", options="nolock")
    pair.client.sh(f"cat {MOUNT_POINT}/f")
    pair.server.sh("pkill -STOP mountd && exportfs -f")
    try:
        waiting = pair.client.vm.start(f"touch {MOUNT_POINT}/g")
        time.sleep(1)
        assert pair.client.vm.agent.poll(waiting) is None, "the server was not slow"
        yield waiting
    finally:
        pair.server.sh("pkill -CONT mountd")


def _connects(pair: Pair) -> int:
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.parse(text, MOUNT_POINT)["connect_count"]


def _await(pair: Pair, waiting: int, limit: float) -> float:
    began = time.monotonic()
    done = pair.client.vm.agent.wait(waiting, limit)
    assert done.status == 0, done.stderr.decode()
    return time.monotonic() - began


@pytest.mark.full
def test_slow_server(pair: Pair) -> None:
    """The client probes a slow server; the server's device answers, and the connection stays."""
    with tracing.recording(pair.client, EVENTS) as trace:
        with _slow_server(pair) as waiting:
            # The first probe comes 10 to 15 s after the last message, the next every 10 s.
            time.sleep(30)
            assert pair.client.vm.agent.poll(waiting) is None
            events = trace.events()
        _await(pair, waiting, 60)
    probes = [e for e in events if e.name == "xprtrdma_probe"]
    answers = [e for e in events if e.name == "xprtrdma_wc_probe"]
    assert 2 <= len(probes) <= 3, events
    assert all("owes 1 replies" in e.text for e in probes)
    # The last probe may not have been answered yet.
    assert len(probes) - len(answers) in (0, 1)
    assert all("SUCCESS" in e.text for e in answers), answers
    assert _connects(pair) == 1
    pair.umount()


@pytest.mark.full
@pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
def test_lost_farewell(pair: Pair) -> None:
    """The server closes the connection while the link is dead; the client finds out by a probe."""
    assert pair.relay is not None
    with tracing.recording(pair.client, EVENTS) as trace:
        with _slow_server(pair) as waiting:
            began = time.monotonic()
            pair.relay.set("blackout", 1)
            pair.restart_nfsd()
            time.sleep(1)
            pair.relay.set("blackout", 0)
        took = _await(pair, waiting, 120)
        silent = time.monotonic() - began
        events = trace.events()
    print(f"noticed and done {took:.1f} s after the link was back, {silent:.1f} s in all")
    # Two or three looks of five seconds, the device's retries, and up to 5 s until it reconnects.
    assert took < 35
    # Over iWARP no probe is needed: TCP repeats the end of the connection. But if nfsd takes long
    # to restart, the client may probe first: it does so after two looks, five seconds apart.
    names = [e.name for e in events]
    if settings.link() == "rxe" or (names and silent >= 8):
        assert names == ["xprtrdma_probe", "xprtrdma_wc_probe"]
    else:
        assert names == []
    (line,) = connections.read(pair.client)
    assert int(line["probes"]) == names.count("xprtrdma_probe")
    assert _connects(pair) == 2
    assert pair.server.sh("ls /srv/export").split() == ["f", "g"]
    pair.umount()
