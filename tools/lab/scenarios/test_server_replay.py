# SPDX-License-Identifier: GPL-2.0
"""Calls that the server has executed and whose replies are lost: it must not execute them again.

The client repeats such a call on a new connection, and the server's duplicate reply cache answers.
The cache knows the call by its bytes, XID and address, which must not depend on the connection.
"""

from __future__ import annotations

import time

import pytest

from lab.fixtures import Counters
from lab.pair import MOUNT_POINT, Pair
from lab.relay import Relay

pytestmark = pytest.mark.server

CONTROL = "/run/once"
#: Seconds of silence that cost a connection: RoCE retries for about five.
SILENCE, TIMES = 8.0, 4


# Over iWARP TCP continues to retry, so no connection is lost.
@pytest.mark.full
@pytest.mark.export
@pytest.mark.rxe_only
@pytest.mark.parametrize("version", ["3", "4.0", "4.2"])
def test_lost_replies(pair: Pair, relay: Relay, counters: Counters, version: str) -> None:
    """Names are made and removed across lost connections, and no operation fails."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    pair.client.sh(f"rm -f {CONTROL}.*")
    working = pair.client.vm.start(f"exec python3 /lab/once.py {MOUNT_POINT} {CONTROL}")
    for _ in range(TIMES):
        time.sleep(3)
        relay.set("blackout", 1)
        time.sleep(SILENCE)
        relay.set("blackout", 0)
        before = _progress(pair)
        deadline = time.monotonic() + 120
        while _progress(pair) < before + 20:
            assert time.monotonic() < deadline, "no progress after the blackout"
            time.sleep(0.2)
    pair.client.sh(f"touch {CONTROL}.stop")
    done = pair.client.vm.agent.wait(working, 120)
    print(done.stdout.decode().strip(), f"{counters.connects()} connections")
    assert done.status == 0, done.stderr.decode()
    assert counters.connects() > 1
    assert pair.server.sh("ls -A /srv/export") == ""
    pair.umount()


def _progress(pair: Pair) -> int:
    done = pair.client.run(f"cat {CONTROL}.status")
    return int(done.stdout or 0)
