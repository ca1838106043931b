# SPDX-License-Identifier: GPL-2.0
"""An idle mount closes its connection and connects again when it is used."""

from __future__ import annotations

import time

import pytest

from lab import tracing
from lab.fixtures import Counters
from lab.pair import MOUNT_POINT, Pair

#: Seconds without a call after which SUNRPC closes the connection.
IDLE = 300
#: Seconds by which the kernel's timer wheel may be late: 2^15 ticks at a thousand a second.
LATE = 33
QUEUE_PAIRS = "rdma resource show qp"


@pytest.mark.full
@pytest.mark.plain_only
def test_idle_disconnect(pair: Pair, counters: Counters) -> None:
    """The connection closes after five idle minutes, and the next call connects at once."""
    pair.server.sh("rm -rf /srv/export/*; echo there > /srv/export/idle")
    events = ("rpcrdma:xprtrdma_disconnect", "rpcrdma:xprtrdma_connect")
    # NFSv4 renews its lease periodically; version 3 is quiet. `nolock` leaves lockd out.
    with tracing.recording(pair.client, events) as trace:
        pair.mount("3", options="nolock,actimeo=600")
        pair.client.sh(f"cat {MOUNT_POINT}/idle")
        assert "type RC" in pair.client.sh(QUEUE_PAIRS)
        before = len(trace.events())
        time.sleep(IDLE - 20)
        assert len(trace.events()) == before, "the connection closed too early"
        time.sleep(20 + LATE + 10)
        after = trace.events()[before:]
        assert [e.name for e in after] == ["xprtrdma_disconnect"]
        resources = pair.client.sh(QUEUE_PAIRS)
        assert "type RC" not in resources, resources
        began = time.monotonic()
        pair.client.sh(f"echo again > {MOUNT_POINT}/idle2; sync {MOUNT_POINT}/idle2")
        assert time.monotonic() - began < 5 * pair.patience
    assert pair.server.read("/srv/export/idle2") == "again\n"
    assert counters.connects() == 2
    pair.umount()
