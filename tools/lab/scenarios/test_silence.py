# SPDX-License-Identifier: GPL-2.0
"""A server that owes a reply and says nothing is slow, or not there any more.

NFSv3 is as silent as its server: without a lease nothing is sent while a call waits. mountd is
stopped, so that nfsd, which has to ask it about the export, keeps the call for as long as we want.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import mountstats, settings, tracing
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

pytestmark = pytest.mark.needs_ours
EVENTS = ("rpcrdma:xprtrdma_probe", "rpcrdma:xprtrdma_wc_probe")


@contextmanager
def _slow_server(pair: Pair) -> Iterator[int]:
    """The client waits for a reply meanwhile; yields its process."""
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
    """It is probed, its device answers, and the call waits on, over the same connection."""
    with tracing.recording(pair.client, EVENTS) as trace:
        with _slow_server(pair) as waiting:
            # Probes come 10 to 15 s after the last word, and every 10 s then.
            time.sleep(30)
            assert pair.client.vm.agent.poll(waiting) is None
            events = trace.events()
        _await(pair, waiting, 60)
    probes = [e for e in events if e.name == "xprtrdma_probe"]
    answers = [e for e in events if e.name == "xprtrdma_wc_probe"]
    assert 2 <= len(probes) <= 3, events
    assert all("owes 1 replies" in e.text for e in probes)
    # The last one may just have gone out.
    assert len(probes) - len(answers) in (0, 1)
    assert all("SUCCESS" in e.text for e in answers), answers
    assert _connects(pair) == 1
    pair.umount()


@pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
def test_lost_farewell(pair: Pair) -> None:
    """It has given the connection up while the link was dead: that is found out in good time."""
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
    # Two to three looks, the device's own retries, and at most five seconds to the next connection.
    assert took < 35
    # Over iWARP there is no need: TCP sends the farewell again. But nfsd may take so long to
    # restart that two looks, five seconds apart, find silence first.
    names = [e.name for e in events]
    if settings.link() == "rxe" or (names and silent >= 8):
        assert names == ["xprtrdma_probe", "xprtrdma_wc_probe"]
    else:
        assert names == []
    assert _connects(pair) == 2
    assert pair.server.sh("ls /srv/export").split() == ["f", "g"]
    pair.umount()
