# SPDX-License-Identifier: GPL-2.0
"""Devices whose driver sleeps while it maps memory: nothing is mapped in atomic context.

`lab_sleepy.ko` makes siw's device such a one. A module that maps memory under a spinlock gets a
report of the kernel, which fails the scenario.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.harness import Options
from lab.pair import MOUNT_POINT, Guest, Pair
from lab.worker import Worker

pytestmark = [pytest.mark.full, pytest.mark.needs_ours]
SIW = pytest.mark.parametrize("pair", [Options(link="siw")], indirect=True)
VERIFY = "python3 /lab/verify.py"
FILL = "rm -rf /srv/export/* && python3 /lab/given_up.py fill /srv/export"
#: Processes that are killed while their calls are being prepared, or wait for replies.
KILLS = f"python3 /lab/given_up.py kill {MOUNT_POINT} 5 chunks"


@contextmanager
def _sleepy(guest: Guest) -> Iterator[None]:
    """Lets mapping sleep. Nothing may be mounted at the end, or nfsd be running.

    # Errors
    `AssertionError` when nothing was mapped.
    """
    guest.sh("insmod /lab/lab_sleepy.ko")
    try:
        yield
        mapped = int(guest.read("/sys/module/lab_sleepy/parameters/mapped"))
        print(f"the {guest.name} has mapped memory {mapped} times")
        assert mapped > 0
    finally:
        guest.sh("rmmod lab_sleepy")


def _work(pair: Pair) -> None:
    """Writes and checks files, and kills processes amid their calls."""
    pair.client.sh(f"{VERIFY} write sizes {MOUNT_POINT}/up", timeout=400)
    pair.client.sh("sync; echo 3 > /proc/sys/vm/drop_caches")
    pair.client.sh(f"{VERIFY} check sizes {MOUNT_POINT}/up", timeout=400)
    pair.server.sh(f"{VERIFY} check sizes /srv/export/up", timeout=400)
    worker = Worker(pair)
    worker.await_progress(50, 100)
    print(pair.client.sh(KILLS, timeout=200).strip())
    worker.await_progress(50, 100)
    said = worker.finish(300)
    print(said)
    assert "errors=0" in said


@SIW
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_client(pair: Pair, version: str) -> None:
    """The client prepares its calls before it takes the transport's lock, and loses none."""
    pair.server.sh(FILL)
    with _sleepy(pair.client):
        pair.mount(version, options="nolock" if version == "3" else "")
        _work(pair)
        pair.restart_nfsd(1)
        _work(pair)
        pair.umount()


@pytest.mark.needs_our_server
@pytest.mark.server
@SIW
def test_server(pair: Pair) -> None:
    """Over iWARP the server registers the memory that it reads into."""
    pair.server.sh(FILL)
    pair.stop_nfsd()
    with _sleepy(pair.server):
        pair.start_nfsd()
        pair.mount("4.2")
        _work(pair)
        pair.umount()
        pair.stop_nfsd()
    pair.start_nfsd()
