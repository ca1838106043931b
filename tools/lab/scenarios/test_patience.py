# SPDX-License-Identifier: GPL-2.0
"""How long a mount waits for a server that does not answer, and how often it connects."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from lab import settings, tracing
from lab.pair import MOUNT_POINT, Pair
from lab.relay import Relay

pytestmark = pytest.mark.full

READ = f"dd if={MOUNT_POINT}/f of=/dev/null bs=4k count=1 iflag=direct"


def _prepare(pair: Pair) -> None:
    pair.server.sh("rm -rf /srv/export/*; head -c 65536 /dev/urandom > /srv/export/f")


@pytest.mark.parametrize("version", ["3", "4.2"])
def test_soft_mount(pair: Pair, relay: Relay, version: str) -> None:
    """A soft mount aborts a call after timeo * (retrans + 1), and works again with the link."""
    _prepare(pair)
    pair.mount(version, options="soft,timeo=40,retrans=2")
    pair.client.sh(READ)
    relay.set("blackout", 1)
    began = time.monotonic()
    done = pair.client.run(READ, timeout=120)
    took = time.monotonic() - began
    relay.set("blackout", 0)
    print(f"gave up after {took:.1f} s: {done.stderr.decode().strip()}")
    assert done.status not in (0, 124, 137)
    assert "Input/output error" in done.stderr.decode()
    # 4 s, and 4 s more for each retry; a new connection has a longer time limit of its own.
    assert 11 <= took < 40
    # The siw of a server may miss the first call of a connection (see lab-traps.rst).
    for _ in range(3 if settings.link() == "siw" else 1):
        done = pair.client.run(READ, timeout=120)
        if done.status == 0:
            break
    assert done.status == 0, done.stderr.decode()
    pair.umount()


def test_hard_mount(pair: Pair, relay: Relay) -> None:
    """A hard mount, the default, never aborts a call, whatever timeo and retrans are."""
    _prepare(pair)
    pair.mount("3", options="timeo=10,retrans=1")
    pair.client.sh(READ)
    relay.set("blackout", 1)
    reader = pair.client.vm.start(READ)
    time.sleep(15)
    assert pair.client.vm.agent.poll(reader) is None
    relay.set("blackout", 0)
    done = pair.client.vm.agent.wait(reader, 120)
    assert done.status == 0, done.stderr.decode()
    pair.umount()


@pytest.mark.needs_ours
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_refused_for_a_minute(pair: Pair, version: str) -> None:
    """The client tries to connect often at first and ever more rarely, and finds the server soon.

    For four seconds the attempts are a quarter to half a second apart; then the pause is up to an
    eighth of the time since the server went away. After a failure that the transport has reported,
    SUNRPC does not ask for a connection for three seconds.
    """
    _prepare(pair)
    with tracing.recording(pair.client, ["rpcrdma:xprtrdma_connect"]) as trace:
        pair.mount(version)
        pair.client.sh(READ)
        mounted = len(trace.events())
        pair.stop_nfsd()
        reader = pair.client.vm.start(READ)
        time.sleep(60)
        assert pair.client.vm.agent.poll(reader) is None
        refused = [event.time for event in trace.events()[mounted:] if "rc=-111" in event.text]
        pair.start_nfsd()
        began = time.monotonic()
        done = pair.client.vm.agent.wait(reader, 150)
        recovered = time.monotonic() - began
    assert done.status == 0, done.stderr.decode()
    gaps = [(earlier - refused[0], later - earlier) for earlier, later in pairwise(refused)]
    print(f"gaps {[f'{gap:.1f}' for _, gap in gaps]}, back after {recovered:.1f} s")
    assert all(gap > 0.2 for _, gap in gaps)
    assert all(gap < max(3, (gone + 8) / 8) + 1.5 for gone, gap in gaps)
    # The first attempts come before the transport reports a failure to the RPCs.
    assert len([gone for gone, _ in gaps if gone < 3]) >= 5
    assert 20 <= len(refused) <= 80
    # The next attempt is 8 s after the last one at most; with NFSv4 the grace period follows.
    assert recovered < 10 + (25 if version == "4.2" else 0)
    pair.umount()
