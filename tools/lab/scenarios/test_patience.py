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
@pytest.mark.parametrize(("version", "wanted"), [("3", (5, 10, 20)), ("4.2", (5,) * 10)])
def test_refused_for_a_minute(pair: Pair, version: str, wanted: tuple[int, ...]) -> None:
    """Attempts to connect are 5, 10, 20 s apart and so on; then the server is there again.

    NFSv4 wants them no further apart than half a lease, which is 10 s here.
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
        refused = trace.events()[mounted:]
        pair.start_nfsd()
        began = time.monotonic()
        done = pair.client.vm.agent.wait(reader, 150)
        recovered = time.monotonic() - began
    assert done.status == 0, done.stderr.decode()
    gaps = [later.time - earlier.time for earlier, later in pairwise(refused)]
    print(f"gaps {[f'{gap:.1f}' for gap in gaps]}, back after {recovered:.1f} s")
    assert all("rc=-111" in e.text for e in refused)
    assert len(wanted) <= len(gaps) <= len(wanted) + 2
    # Each at least as long as documented, and not much longer.
    for gap, least in zip(gaps, wanted, strict=False):
        assert least - 0.5 <= gap <= least + 5
    # The next attempt is 40 s after the last one at most; NFSv4 then has its grace period.
    assert recovered < 40 + 25
    pair.umount()
