# SPDX-License-Identifier: GPL-2.0
"""Calls that nfsd puts aside, because mountd does not answer, and takes up again.

SUNRPC copies such a call and frees its thread. Only calls of NFSv3 without a payload in pages are
put aside; later versions tell the client to try again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import tracing
from lab.pair import MOUNT_POINT, Pair
from lab.requester import connections, settle
from lab.tracing import Recorder

pytestmark = [pytest.mark.server, pytest.mark.full]

ASIDE, AGAIN, DROPPED = "svc_defer", "svc_defer_recv", "svc_defer_drop"
#: Seconds in which nfsd must put a call aside: a thread waits five for mountd.
LIMIT = 60
FILE = f"{MOUNT_POINT}/made"
REFERENCES = "/sys/module/rpcrdma/refcnt"


@contextmanager
def _put_aside(pair: Pair) -> Iterator[tuple[int, Recorder]]:
    """Has the client make a file; yields its process and the trace when the call is put aside.

    mountd goes on at the end of the block.
    """
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("3", options="nolock")
    events = [f"sunrpc:{name}" for name in (ASIDE, AGAIN, DROPPED)]
    with tracing.recording(pair.server, events) as trace:
        pair.server.sh("pkill -STOP mountd && exportfs -f")
        try:
            making = pair.client.vm.start(f"touch {FILE}")
            _await(trace, ASIDE)
            assert pair.client.vm.agent.poll(making) is None
            yield making, trace
        finally:
            pair.server.sh("pkill -CONT mountd")


def _await(trace: Recorder, name: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not trace.events(name):
        assert time.monotonic() < deadline, f"no event {name}"
        time.sleep(0.5)


def test_answer(pair: Pair) -> None:
    """The call is taken up when mountd answers, and its reply reaches the client."""
    with _put_aside(pair) as (making, trace):
        assert not trace.events(AGAIN)
        pair.server.sh("pkill -CONT mountd")
        _await(trace, AGAIN)
        done = pair.client.vm.agent.wait(making, LIMIT)
    assert done.status == 0, done.stderr.decode()
    assert pair.server.sh("ls /srv/export") == "made\n"
    pair.umount()


def _await_references(pair: Pair, wanted: int) -> None:
    """Waits until the server's module has this many references."""
    deadline = time.monotonic() + LIMIT
    while (found := int(pair.server.read(REFERENCES))) != wanted:
        assert time.monotonic() < deadline, f"{found} references to the module, not {wanted}"
        time.sleep(0.5)


def test_loss(pair: Pair) -> None:
    """The connection has ended when mountd answers: the call is dropped, and its transport too."""
    before, references = connections(pair), int(pair.server.read(REFERENCES))
    with _put_aside(pair) as (making, trace):
        pair.client.sh(f"umount -f -l {MOUNT_POINT}")
        pair.client.vm.agent.wait(making, LIMIT)
        assert settle(pair, before, LIMIT) == before
        # The call that was put aside keeps its transport.
        _await_references(pair, references + 1)
        pair.server.sh("pkill -CONT mountd")
        _await(trace, DROPPED)
        assert not trace.events(AGAIN)
    _await_references(pair, references)
    assert pair.server.sh("ls /srv/export") == ""
    pair.mount("3", options="nolock")
    pair.client.sh(f"touch {FILE}")
    pair.umount()
