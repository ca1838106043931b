# SPDX-License-Identifier: GPL-2.0
"""Verified work while the devices of both sides behave as adapters may, and while they fail.

Completions come late, in hard interrupts, on another processor and a few at a time, Receives
overtake Sends, posting fails, mapping takes long (tools/lab/provoke/lab_moods.c). A device reports
that it has failed, and loses its connections.
"""

from __future__ import annotations

import random
import time

import pytest

from lab import settings
from lab.fixtures import Counters
from lab.harness import Options
from lab.moods import Moods
from lab.pair import Pair
from lab.progress import say
from lab.worker import Worker

pytestmark = [
    pytest.mark.full,
    pytest.mark.parametrize("pair", [Options(moody=True)], indirect=True),
    pytest.mark.server,
    pytest.mark.needs_ours,
    pytest.mark.needs_our_server,
    pytest.mark.rxe_only,
]

#: Seconds in which a mount must be at work again after the device has returned.
SOON = 60.0
#: Changes of the behaviour.
ROUNDS = 30


def _begin(pair: Pair) -> Worker:
    pair.server.sh("rm -rf /srv/export/*", timeout=100)
    pair.mount()
    return Worker(pair)


def _finish(pair: Pair, worker: Worker, devices: tuple[Moods, Moods]) -> None:
    worker.await_progress(20, SOON)
    said = worker.finish(300)
    print(said)
    assert "errors=0" in said
    pair.umount()
    for device in devices:
        assert device.get("refused") == 0


#: Each change alone: a value of each parameter, and the counter that must move.
ALONE = {
    "hard": ({"hard": 1}, "announced"),
    "late": ({"late": 50_000, "hard": 1}, "announced"),
    "batch": ({"batch": 2, "late": 2_000}, "split"),
    "behind": ({"behind": 20_000}, "overtaken"),
    "enomem": ({"enomem": 20}, "failed"),
    "slow": ({"slow": 200}, "slowed"),
}


@pytest.mark.parametrize("change", ALONE)
def test_one_change(pair: Pair, devices: tuple[Moods, Moods], change: str) -> None:
    """Work continues with one change of the behaviour on both sides."""
    values, counter = ALONE[change]
    worker = _begin(pair)
    before = [device.get(counter) for device in devices]
    for device in devices:
        device.set(**values)
    worker.mark()
    worker.await_progress(100, 200)
    print(f"the longest time without a success: {worker.standstill():.1f} s")
    for device, count in zip(devices, before, strict=True):
        moved = device.get(counter) - count
        print(f"{counter} on the {device.guest_name}: {moved}")
        # A server maps no regions over rxe.
        assert moved or (change == "slow" and device is devices[1])
        device.calm()
    _finish(pair, worker, devices)


def test_vectors(pair: Pair, devices: tuple[Moods, Moods]) -> None:
    """Work continues while the interrupts of both devices move from processor to processor."""
    worker = _begin(pair)
    for vector in (1, 2, 1, 2):
        before = [device.get("steered") for device in devices]
        for device in devices:
            device.set(vector=vector)
        worker.await_progress(50, 100)
        moved = [device.get("steered") - n for device, n in zip(devices, before, strict=True)]
        print(f"announced on processor {vector - 1} from another one: {moved}")
        assert all(moved)
    for device in devices:
        device.calm()
    _finish(pair, worker, devices)


def _changes(chance: random.Random) -> dict[str, int]:
    """Returns a random behaviour."""
    return {
        "late": chance.choice((0, 0, 1_000, 10_000, 50_000)),
        "hard": chance.choice((0, 1)),
        "vector": chance.choice((0, 1, 2)),
        "batch": chance.choice((0, 1, 4, 16, 64)),
        "behind": chance.choice((0, 0, 1_000, 20_000)),
        "enomem": chance.choice((0, 0, 100, 1000)),
        "slow": chance.choice((0, 0, 50, 500)),
    }


def test_random_changes(pair: Pair, devices: tuple[Moods, Moods]) -> None:
    """Work continues while both devices change at random; `SOAK_SEED` repeats that."""
    seed = settings.soak_seed()
    say(f"SOAK_SEED={seed} repeats these changes")
    chance = random.Random(seed)
    worker = _begin(pair)
    for _ in range(ROUNDS):
        device = chance.choice(devices)
        values = _changes(chance)
        device.set(**values)
        took = worker.await_progress(30, 100)
        print(f"{device.guest_name}: {values}: {took:.1f} s")
    for device in devices:
        device.calm()
    _finish(pair, worker, devices)


def _side(devices: tuple[Moods, Moods], side: str) -> Moods:
    return devices[side == "server"]


SIDES = pytest.mark.parametrize("side", ["client", "server"])


@pytest.mark.parametrize("side", ["server", "client"])
def test_fatal_and_removal(pair: Pair, devices: tuple[Moods, Moods], side: str) -> None:
    """A device reports its failure, completes nothing more, goes later, and returns renamed."""
    device = _side(devices, side)
    worker = _begin(pair)
    device.event("device-fatal")
    time.sleep(1)
    began = time.monotonic()
    device.remove()
    removing = time.monotonic() - began
    device.add("other0")
    returning = worker.await_progress(20, SOON)
    print(f"removed in {removing:.1f} s; at work {returning:.1f} s after the return")
    device.remove()
    device.add(f"{device.link}0")
    _finish(pair, worker, devices)
    assert removing < SOON


@SIDES
def test_failed_queue_pairs(
    pair: Pair, devices: tuple[Moods, Moods], counters: Counters, side: str
) -> None:
    """Each connection's queue pair fails, twice, and the client connects again."""
    device = _side(devices, side)
    worker = _begin(pair)
    for _ in range(2):
        before = counters.connects()
        device.event("qp-fatal")
        print(f"at work again after {worker.await_progress(20, SOON):.1f} s")
        assert counters.connects() > before
    _finish(pair, worker, devices)


@SIDES
def test_events_without_effect(
    pair: Pair, devices: tuple[Moods, Moods], counters: Counters, side: str
) -> None:
    """Work continues when ports, GIDs and paths change and the connection stays."""
    device = _side(devices, side)
    worker = _begin(pair)
    before = counters.connects()
    for event in ("port-err", "gid-change", "port-active", "path-mig"):
        device.event(event)
        worker.await_progress(20, SOON)
    assert counters.connects() == before
    _finish(pair, worker, devices)
