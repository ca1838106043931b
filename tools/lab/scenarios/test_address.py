# SPDX-License-Identifier: GPL-2.0
"""The server's address moves to another Ethernet address, as in a failover between two hosts.

A RoCE connection is bound to the Ethernet address that its peer had at first. The connection
manager reports when the peer has another one: then the client must connect again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import tracing
from lab.fixtures import Counters
from lab.pair import CLIENT_ADDRESS, Pair
from lab.worker import Worker

ELSEWHERE = "52:54:00:00:01:01"
EVENTS = ("rpcrdma:xprtrdma_conn_state",)


@contextmanager
def _moved(pair: Pair) -> Iterator[None]:
    """Gives the server another Ethernet address inside the block and announces it to the client."""
    before = pair.server.sh("cat /sys/class/net/eth0/address").strip()

    def move(address: str) -> None:
        # The packet makes the server resolve the client's address, and so announces its own.
        ask = f"ip neigh flush dev eth0; echo > /dev/udp/{CLIENT_ADDRESS}/9"
        pair.server.sh(f"ip link set eth0 address {address} && {ask}")

    move(ELSEWHERE)
    try:
        yield
    finally:
        move(before)


@pytest.mark.both_roles
@pytest.mark.full
@pytest.mark.needs_ours
@pytest.mark.rxe_only
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_server_moves(pair: Pair, counters: Counters, version: str) -> None:
    """Each move under load makes the client connect again at once, and no operation fails."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    worker = Worker(pair)
    with tracing.recording(pair.client, EVENTS) as trace:
        with _moved(pair):
            print(f"at work again after {worker.await_progress(20, 30):.1f} s")
        print(f"at work again after {worker.await_progress(20, 30):.1f} s")
        lost = [e.text for e in trace.events() if "up -> draining" in e.text]
    said = worker.finish()
    print(said)
    assert "errors=0" in said
    # The client may connect before the server has forgotten its old neighbours, and then also
    # lose that connection.
    assert 2 <= len(lost) <= 4
    assert sum("unreachable" in text for text in lost) == 2, lost
    assert counters.connects() == len(lost) + 1
    pair.umount()
