# SPDX-License-Identifier: GPL-2.0
"""Verified work while a device fails and says nothing, or says so and is removed much later.

The modules of both guests may be stock ones, so that their times can be compared with ours.
"""

from __future__ import annotations

import time

import pytest

from lab import nfsrdma, settings
from lab.fixtures import Counters
from lab.harness import Options
from lab.moods import Moods
from lab.pair import CLIENT_ADDRESS, SERVER_ADDRESS, Guest, Pair
from lab.worker import Worker

pytestmark = [
    pytest.mark.parametrize("pair", [Options(moody=True)], indirect=True),
    pytest.mark.both_roles,
    pytest.mark.server_long,
    pytest.mark.rxe_only,
    pytest.mark.full,
]
OURS = settings.client() == "ours" and settings.server() == "ours"
#: Seconds in which a mount must be at work again. RPCs time out after a minute.
SOON = 100.0 if OURS else 300.0
#: Seconds between the report of a device and its removal.
PAUSE = 10
#: Seconds in which `nfsrdma doctor` must have the finding. A client looks every five seconds.
FOUND = 40.0
#: Seconds in which another mount over the same device must work.
PROMPT = 20.0
OTHER = "/mnt/other"
SIDES = pytest.mark.parametrize("side", ["client", "server"])


def _begin(pair: Pair) -> Worker:
    pair.server.sh("rm -rf /srv/export/*", timeout=100)
    pair.mount()
    return Worker(pair)


def _finish(pair: Pair, worker: Worker, devices: tuple[Moods, Moods]) -> None:
    worker.await_progress(20, SOON)
    said = worker.finish(300)
    assert "errors=0" in said
    pair.umount()
    for device in devices:
        assert device.get("refused") == 0


def _use_another_mount(pair: Pair) -> float:
    """Mounts a second time, over a connection of its own; returns the seconds that its use took."""
    began = time.monotonic()
    pair.mount("3", options="nolock", at=OTHER)
    pair.client.sh(f"echo here > {OTHER}/other && sync -f {OTHER}", timeout=100)
    assert pair.server.read("/srv/export/other") == "here\n"
    pair.umount(OTHER)
    return time.monotonic() - began


def _await_finding(pair: Pair, name: str) -> None:
    """Waits until the client's doctor has a finding, which names the failure."""
    nfsrdma.install(pair)
    deadline = time.monotonic() + FOUND
    while name not in nfsrdma.doctor(pair.client):
        assert time.monotonic() < deadline, f"the doctor does not find {name}"
        time.sleep(1)


@SIDES
@pytest.mark.parametrize("event", ["silent", "cq-err"])
def test_stopped_queues(
    pair: Pair, devices: tuple[Moods, Moods], counters: Counters, side: str, event: str
) -> None:
    """A connection completes nothing any more, and no event of its queue pair says so."""
    worker = _begin(pair)
    before = counters.connects()
    worker.mark()
    devices[side == "server"].event(event)
    other = _use_another_mount(pair)
    if OURS:
        _await_finding(pair, "silent")
    worker.await_progress(20, SOON)
    print(f"another mount took {other:.1f} s")
    print(f"the longest time without a success: {worker.standstill():.1f} s")
    assert other < PROMPT * pair.patience
    assert counters.connects() > before
    _finish(pair, worker, devices)


@SIDES
def test_late_removal(pair: Pair, devices: tuple[Moods, Moods], side: str) -> None:
    """A device reports its failure, completes nothing for ten seconds, goes, and returns."""
    device = devices[side == "server"]
    worker = _begin(pair)
    worker.mark()
    device.event("device-fatal")
    time.sleep(PAUSE)
    began = time.monotonic()
    device.remove()
    removing = time.monotonic() - began
    device.add()
    returning = worker.await_progress(20, SOON)
    print(f"removed in {removing:.1f} s; at work {returning:.1f} s after the return")
    print(f"the longest time without a success: {worker.standstill():.1f} s")
    # The stock client needs more than a minute for that.
    assert removing < PROMPT * pair.patience or not OURS
    _finish(pair, worker, devices)


#: Lists as many other addresses as rxe has GIDs (RXE_PORT_GID_TBL_LEN).
OTHERS = "for n in $(seq 0 1023); do echo 10.9.$((n / 250)).$((n % 250 + 1))/32 dev eth0; done"


def _others(change: str) -> str:
    """A command that adds or deletes these addresses."""
    return f"{OTHERS} | sed 's/^/address {change} /' | ip -force -batch - 2> /dev/null"


def _take_gid(guest: Guest, address: str) -> None:
    """Takes the GID of an address away: the address returns when the table of GIDs is full."""
    guest.sh(f"ip address del {address}/24 dev eth0 && {_others('add')}", timeout=200)
    guest.sh(f"ip address add {address}/24 dev eth0 && sleep 1")
    assert not _has_gid(guest, address)


def _restore_gid(guest: Guest, address: str) -> None:
    """Gives an address its GID back: an address gets its GID when it is added."""
    guest.sh(f"{_others('del')}; ip address del {address}/24 dev eth0 && sleep 1", timeout=200)
    guest.sh(f"ip address add {address}/24 dev eth0 && sleep 1")
    assert _has_gid(guest, address)


def _has_gid(guest: Guest, address: str) -> bool:
    """Whether the port of the guest has the GID of an IPv4 address."""
    octets = [int(octet) for octet in address.split(".")]
    gid = "ffff:{:02x}{:02x}:{:02x}{:02x}".format(*octets)
    return guest.run(f"cat /sys/class/infiniband/*/ports/1/gids/* | grep -q {gid}").status == 0


@SIDES
def test_address_without_gid(
    pair: Pair, devices: tuple[Moods, Moods], counters: Counters, side: str
) -> None:
    """A GID goes and its address stays: nothing connects meanwhile, and all returns with the GID.

    rxe drops the packets of a connection whose GID has gone.
    """
    guest = pair.server if side == "server" else pair.client
    address = SERVER_ADDRESS if side == "server" else CLIENT_ADDRESS
    worker = _begin(pair)
    before = counters.connects()
    _take_gid(guest, address)
    try:
        devices[side == "server"].event("qp-fatal")
        stopped = worker.progress()
        time.sleep(PAUSE)
        assert worker.progress() == stopped
        assert counters.connects() == before
    finally:
        _restore_gid(guest, address)
    print(f"at work {worker.await_progress(20, SOON):.1f} s after the return of the GID")
    assert counters.connects() > before
    _finish(pair, worker, devices)
