# SPDX-License-Identifier: GPL-2.0
"""Mounting what is not there gives mount's usual errors, in good time."""

from __future__ import annotations

import time

import pytest

from lab import settings
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair


def _fail_to_mount(pair: Pair, server: str, port: int = 20049, limit: float = 200) -> str:
    """Try a mount without retries and return what mount said."""
    options = f"vers=4.2,proto=rdma,port={port},retry=0"
    began = time.monotonic()
    done = pair.client.run(
        f"mkdir -p {MOUNT_POINT}; mount -t nfs -o {options} {server}:/export {MOUNT_POINT}",
        timeout=limit,
    )
    print(f"{server} port {port}: {time.monotonic() - began:.1f} s: {done.stderr.decode()}")
    assert done.status not in (0, 124, 137), "mounted, or did not come back"
    return done.stderr.decode()


def _still_usable(pair: Pair, patience: float = 2) -> None:
    """A failed attempt must not keep the next one, or rmmod (for longer), from working."""
    pair.mount()
    pair.umount()
    pair.unload(patience)
    pair.load()


def test_refused(pair: Pair) -> None:
    """Nobody listens on that port."""
    assert "refused" in _fail_to_mount(pair, "10.0.0.1", 20050)
    _still_usable(pair)


def test_no_route(pair: Pair) -> None:
    """No way to that network."""
    text = _fail_to_mount(pair, "192.168.77.1")
    assert "unreachable" in text or "No route" in text
    _still_usable(pair)


def test_absent_host(pair: Pair) -> None:
    """Nobody has that address. That is a protocol error, as with the stock module."""
    assert "Protocol error" in _fail_to_mount(pair, "10.0.0.99", limit=12)
    _still_usable(pair)


@pytest.mark.full
@pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
def test_silent_server(pair: Pair) -> None:
    """The server's address resolves, and nothing it is asked over RDMA is answered."""
    assert pair.relay is not None
    pair.relay.set("blackout", 1)
    try:
        text = _fail_to_mount(pair, "10.0.0.1", limit=300)
    finally:
        pair.relay.set("blackout", 0)
    assert any(word in text for word in ("timed out", "unreachable", "refused", "mounting failed"))
    # An attempt to connect over siw ends when TCP's does.
    _still_usable(pair, 2 if settings.link() == "rxe" else 150)
