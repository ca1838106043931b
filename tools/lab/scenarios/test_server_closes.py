# SPDX-License-Identifier: GPL-2.0
"""SUNRPC closes connections of a server: those that nothing uses, and those of a lost address."""

from __future__ import annotations

import time

import pytest

from lab.crowd import await_queue_pairs, crowd, queue_pairs
from lab.memory import free_kilobytes
from lab.pair import SERVER_ADDRESS, Pair
from lab.requester import settle
from lab.worker import Worker

pytestmark = [pytest.mark.server, pytest.mark.full, pytest.mark.rxe_only]

#: SUNRPC polls every six minutes, and closes connections that were idle since the last poll.
AGEING = 13 * 60.0
CROWD = 16
#: Kilobytes of the server that differ for other reasons.
MEMORY = 2000
#: Seconds in which connections of an address must be gone after it.
CLOSING = 10.0


@pytest.mark.by_the_clock
@pytest.mark.plain_only
@pytest.mark.timeout(1200)
def test_ageing(pair: Pair) -> None:
    """Connections that make no further call are closed within 13 minutes, and cost nothing then."""
    with crowd(pair, CROWD):
        pass
    before, free = queue_pairs(pair.server), free_kilobytes(pair.server)
    with crowd(pair, CROWD):
        assert queue_pairs(pair.server) == before + CROWD
        began = time.monotonic()
        await_queue_pairs(pair.server, before, AGEING)
        print(f"closed after {time.monotonic() - began:.0f} s")
        lost = free - free_kilobytes(pair.server)
        print(f"{lost} kB more in use than before")
    assert lost < MEMORY


@pytest.mark.parametrize("version", ["3", "4.2"])
def test_address_is_removed(pair: Pair, version: str) -> None:
    """Connections of an address are closed when it is removed; clients work when it is back."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    worker = Worker(pair)
    worker.await_progress(20, 60)
    pair.server.sh(f"ip addr del {SERVER_ADDRESS}/24 dev eth0")
    try:
        assert settle(pair, 0, CLOSING) == 0
    finally:
        pair.server.sh(f"ip addr add {SERVER_ADDRESS}/24 dev eth0")
    print(f"at work again after {worker.await_progress(20, 100):.1f} s")
    said = worker.finish(300)
    print(said)
    assert "errors=0" in said
    pair.umount()
