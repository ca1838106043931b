# SPDX-License-Identifier: GPL-2.0
"""Mounting from an absent server gives the usual errors of mount within a short time."""

from __future__ import annotations

import time

import pytest

from lab import settings
from lab.pair import MOUNT_POINT, Pair
from lab.relay import Relay


def _fail_to_mount(pair: Pair, server: str, port: int = 20049, limit: float = 200) -> str:
    """Tries to mount without retries and returns the error message of mount."""
    options = f"vers=4.2,proto=rdma,port={port},retry=0"
    began = time.monotonic()
    done = pair.client.run(
        f"mkdir -p {MOUNT_POINT}; mount -t nfs -o {options} {server}:/export {MOUNT_POINT}",
        timeout=limit,
    )
    print(f"{server} port {port}: {time.monotonic() - began:.1f} s: {done.stderr.decode()}")
    assert done.status not in (0, 124, 137), "the mount succeeded, or did not return"
    return done.stderr.decode()


def _still_usable(pair: Pair, patience: float = 2) -> None:
    """Checks that mount, umount and rmmod (within `patience` seconds) work after a failure."""
    pair.mount()
    pair.umount()
    pair.unload(patience)
    pair.load()


def test_refused(pair: Pair) -> None:
    """Mounting from a port without a listener is refused."""
    assert "refused" in _fail_to_mount(pair, "10.0.0.1", 20050)
    _still_usable(pair)


def test_no_route(pair: Pair) -> None:
    """Mounting from a network without a route fails at once."""
    assert "Network is unreachable" in _fail_to_mount(pair, "192.168.77.1")
    _still_usable(pair)


def test_absent_host(pair: Pair) -> None:
    """Mounting from an absent host is a protocol error, as with the stock module."""
    assert "Protocol error" in _fail_to_mount(pair, "10.0.0.99", limit=12)
    _still_usable(pair)


@pytest.mark.full
def test_silent_server(pair: Pair, relay: Relay) -> None:
    """Mounting from a server whose address resolves, but that sends no RDMA packet, fails."""
    relay.set("blackout", 1)
    try:
        text = _fail_to_mount(pair, "10.0.0.1", limit=300)
    finally:
        relay.set("blackout", 0)
    # The stock module gives every attempt that has no answer the same error.
    ours = settings.client() == "ours"
    assert ("Connection timed out" if ours else "Network is unreachable") in text
    # An attempt to connect over siw ends when TCP times out.
    _still_usable(pair, 2 if settings.link() == "rxe" else 150)
