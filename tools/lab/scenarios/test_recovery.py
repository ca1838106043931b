# SPDX-License-Identifier: GPL-2.0
"""The server, the link or packets are lost under load, and return.

guest/worker.py writes, reads and compares every byte throughout. Afterwards the server must have
what the client has written, no operation may have failed, and the client must be at work again
within `SOON` seconds.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest

from lab import mountstats, settings
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

full = pytest.mark.full
LINK = pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
#: Seconds in which our module must be at work again after a fault. The stock module gets longer.
SOON = 40.0
FAULTS = ("loss", "duplicate", "reorder", "late")
#: How many connections a fault may cost: none, or between one and nine.
NONE, SOME = range(1), range(1, 10)


def _connects(pair: Pair) -> int:
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.parse(text, MOUNT_POINT)["connect_count"]


def _start(pair: Pair, version: str) -> tuple[Worker, int]:
    """Mounts, and begins to work. Returns how many connections were made for that: one.

    A second one is made if siw loses the first message, which is on its way while the server's siw
    still takes what comes for a part of the handshake.
    """
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    made = _connects(pair) if settings.link() == "siw" else 1
    assert made in range(1, 3)
    return Worker(pair), made


def _finish(pair: Pair, worker: Worker, made: int, *, lost: range) -> None:
    """Checks the data, the time of the recovery and the number of lost connections.

    `made`: how many connections were made before the fault; `lost`: how many it may have cost.
    """
    limit = SOON if settings.client() == "ours" else 400
    print(f"at work again after {worker.await_progress(5, limit):.1f} s")
    worker.await_progress(50, 200)
    said = worker.finish(300)
    print(said)
    assert "errors=0" in said
    connects = _connects(pair)
    print(f"{connects} connections were made")
    assert connects - made in lost
    pair.umount()


def _harmed(pair: Pair) -> Counter[str]:
    assert pair.relay is not None
    return pair.relay.tally()


@pytest.mark.export
@pytest.mark.both_roles
@pytest.mark.parametrize("version", [pytest.param("3", marks=full), "4.2"])
def test_nfsd_restart(pair: Pair, version: str) -> None:
    """The server stops nfsd for two seconds while the client reads and writes."""
    worker, made = _start(pair, version)
    pair.restart_nfsd(2)
    _finish(pair, worker, made, lost=SOME)


@pytest.mark.both_roles
@LINK
@full
@pytest.mark.parametrize("seconds", [5, 40])
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_blackout(pair: Pair, version: str, seconds: float) -> None:
    """The link carries no RDMA packet for 5 or 40 s; RoCE's own retries end before 40 s."""
    worker, made = _start(pair, version)
    assert pair.relay is not None
    pair.relay.set("blackout", 1)
    # The worker writes its progress down ten times a second, but waits for the processor.
    time.sleep(2)
    before = worker.progress()
    time.sleep(seconds - 2)
    # Each thread of the worker may have received the last reply of an operation already.
    assert worker.progress() <= before + Worker.THREADS, "it went on in the blackout"
    pair.relay.set("blackout", 0)
    # RoCE retries for about five seconds, so 40 s cost a connection. TCP continues to retry.
    lost = SOME if seconds >= 40 else range(2)
    _finish(pair, worker, made, lost=NONE if settings.link() == "siw" else lost)


@pytest.mark.both_roles
@pytest.mark.server_long
@LINK
@pytest.mark.parametrize(
    ("faults", "rate"),
    [
        pytest.param(FAULTS, 0.005, marks=full, id="all-0.5%"),
        *(pytest.param((name,), 0.05, marks=full, id=f"{name}-5%") for name in FAULTS),
        pytest.param(FAULTS, 0.02, marks=full, id="all-2%"),
    ],
)
def test_bad_link(pair: Pair, faults: tuple[str, ...], rate: float) -> None:
    """Packets are lost, doubled, swapped or late: work is slower, and no data is wrong."""
    worker, made = _start(pair, "4.2")
    assert pair.relay is not None
    before = _harmed(pair)
    for name in faults:
        pair.relay.set(name, rate)
    try:
        took = worker.await_progress(60, 300)
        print(f"60 operations on the bad link in {took:.1f} s")
    finally:
        for name in faults:
            pair.relay.set(name, 0)
    harmed = _harmed(pair) - before
    print(f"harmed: {dict(harmed)}")
    assert all(harmed[name] > 0 for name in faults)
    # rxe aborts a connection on such a link now and then: six times in one run at most.
    _finish(pair, worker, made, lost=range(16))


@pytest.mark.both_roles
@full
@LINK
def test_slow_link(pair: Pair) -> None:
    """Every packet takes 10 ms longer, each way."""
    worker, made = _start(pair, "4.2")
    assert pair.relay is not None
    before = _harmed(pair)
    pair.relay.set("delay", 0.01)
    try:
        print(f"60 operations on the slow link in {worker.await_progress(60, 300):.1f} s")
    finally:
        pair.relay.set("delay", 0)
    # Each operation needs two packets at least.
    assert (_harmed(pair) - before)["delay"] >= 2 * 60
    _finish(pair, worker, made, lost=range(2))
