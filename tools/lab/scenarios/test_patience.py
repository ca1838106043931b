# SPDX-License-Identifier: GPL-2.0
"""How long a mount waits for a server that does not answer, and how often it asks."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from lab import settings, tracing
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

RELAYED = pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
READ = f"dd if={MOUNT_POINT}/f of=/dev/null bs=4k count=1 iflag=direct"


def _prepare(pair: Pair) -> None:
    pair.server.sh("rm -rf /srv/export/*; head -c 65536 /dev/urandom > /srv/export/f")


def _blackout(pair: Pair, on: bool) -> None:
    assert pair.relay is not None
    pair.relay.set("blackout", float(on))


@RELAYED
@pytest.mark.parametrize("version", ["3", pytest.param("4.2", marks=pytest.mark.full)])
def test_soft_mount(pair: Pair, version: str) -> None:
    """`soft` gives up after timeo * (retrans + 1), and works again when the server is back."""
    _prepare(pair)
    pair.mount(version, options="soft,timeo=40,retrans=2")
    pair.client.sh(READ)
    _blackout(pair, True)
    began = time.monotonic()
    done = pair.client.run(READ, timeout=120)
    took = time.monotonic() - began
    _blackout(pair, False)
    print(f"gave up after {took:.1f} s: {done.stderr.decode().strip()}")
    assert done.status not in (0, 124, 137)
    said = done.stderr.decode()
    assert "Input/output error" in said or "timed out" in said
    # 4 s, and 4 s more for each retry; connecting anew has its own, coarser patience.
    assert 11 <= took < 40
    # A server's siw may overlook the first call of a connection (see the traps in lab.rst).
    for _ in range(3 if settings.link() == "siw" else 1):
        done = pair.client.run(READ, timeout=120)
        if done.status == 0:
            break
    assert done.status == 0, done.stderr.decode()
    pair.umount()


@pytest.mark.full
@RELAYED
def test_hard_mount(pair: Pair) -> None:
    """`hard`, the default, does not give up, whatever timeo and retrans say."""
    _prepare(pair)
    pair.mount("3", options="timeo=10,retrans=1")
    pair.client.sh(READ)
    _blackout(pair, True)
    reader = pair.client.vm.start(READ)
    time.sleep(15)
    assert pair.client.vm.agent.poll(reader) is None
    _blackout(pair, False)
    done = pair.client.vm.agent.wait(reader, 120)
    assert done.status == 0, done.stderr.decode()
    pair.umount()


@pytest.mark.full
@pytest.mark.needs_ours
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_refused_for_a_minute(pair: Pair, version: str) -> None:
    """Attempts to connect come quickly at first and ever more slowly, and the server is found soon.

    A quarter to half a second apart for four seconds; then up to an eighth of the time that the
    server has been gone. SUNRPC, once told of a failure, does not ask again for three seconds.
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
    # The first ones before RPCs are told; and a minute has room for no more than so many.
    assert len([gone for gone, _ in gaps if gone < 3]) >= 5
    assert 20 <= len(refused) <= 80
    # The next attempt is 8 s after the last one at most; NFSv4 then has its grace period.
    assert recovered < 10 + (25 if version == "4.2" else 0)
    pair.umount()
