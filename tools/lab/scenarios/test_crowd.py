# SPDX-License-Identifier: GPL-2.0
"""Many connections that press the server, beside an honest client."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from lab import bystander
from lab.bench.server.connections import looking
from lab.crowd import KINDS, Pressed, Pressing, await_queue_pairs, queue_pairs
from lab.harness import Options
from lab.memory import free_kilobytes
from lab.pair import Guest, Pair

pytestmark = [
    pytest.mark.full,
    pytest.mark.server,
    pytest.mark.rxe_only,
    pytest.mark.plain_only,
    pytest.mark.needs_our_server,
    pytest.mark.by_the_clock,
    pytest.mark.timeout(600),
]

SPLICE = "/sys/kernel/debug/nfsd/disable-splice-read"
#: Kilobytes that the server may use for each connection: the queues of rxe, Receives, send buffers,
#: and beyond the sixteenth 512 KiB of replies and two replies of a megabyte (server-guide.rst).
EACH = 668 + 536 + 2132 + 512 + 2 * 1024
#: Kilobytes of the server that a crowd may leave behind: slabs that fill up.
LEFT = 12_000
#: Seconds in which a server has to forget connections. It probes a client that is silent for a
#: minute, and closes the connection 50 s later if nothing is acknowledged.
FORGETTING = 130.0
#: Prints the states of the threads of nfsd, and where they are; one that has nothing to do is in
#: svc_recv(). The command has priority over the crowd's work.
THREADS = (
    "chrt -r 1 sh -c 'for at in $(pgrep -x nfsd); do read _ _ state _ < /proc/$at/stat;"
    " read frame < /proc/$at/stack; echo $state $frame; done'"
)
#: rxe ends a connection when the interface drops one of its packets (lab-traps.rst). The answers to
#: the RDMA Reads of 120 connections are more packets than the queue usually takes.
QUEUE = "tc qdisc replace dev eth0 root pfifo limit 1000000"
#: The least number of times to look at the threads.
LEAST = 5
#: Seconds for which the honest client is alone.
QUIET = 3.0


@dataclass(frozen=True)
class Found:
    """The measurements while a crowd pressed."""

    fared: dict[str, Pressed]
    kilobytes: int
    #: The longest and the median seconds of the honest client's calls: beside the crowd, and those
    #: of the slower one of two times without it.
    times: list[float]
    quiet: list[float]
    #: The number of threads of nfsd, at several times, that no call makes wait.
    free: list[int]


def _free(threads: str) -> int:
    """Returns how many threads are idle, or have work for the processor."""
    states = threads.splitlines()
    return len(states) - sum(state[0] in "SD" and "svc_recv" not in state for state in states)


def _used(pair: Pair, free: int) -> int:
    return free - free_kilobytes(pair.server)


def _alone(honest: Guest) -> list[float]:
    with looking(honest) as times:
        time.sleep(QUIET)
    return times


def _press(pair: Pair, honest: Guest, count: int, seconds: float) -> Found:
    alone = [_alone(honest)]
    before, free = queue_pairs(pair.server), free_kilobytes(pair.server)
    pressing = Pressing(pair, count, seconds)
    ends = time.monotonic() + seconds * 0.8
    threads = []
    with looking(honest) as times:
        while len(threads) < LEAST or time.monotonic() < ends - seconds * 0.4:
            threads.append(_free(pair.server.sh(THREADS, timeout=120)))
            time.sleep(0.1)
    # This takes time of the server's processors.
    most = _used(pair, free)
    while time.monotonic() < ends:
        most = max(most, _used(pair, free))
    fared = pressing.finish()
    pressing.leave()
    await_queue_pairs(pair.server, before, FORGETTING)
    # The host may have become slower meanwhile.
    alone.append(_alone(honest))
    return Found(fared, most, times, max(alone, key=lambda times: times[1]), threads)


def _total(pair: Pair) -> int:
    return int(pair.server.sh("awk '/^MemTotal/ {print $2}' /proc/meminfo"))


@pytest.mark.parametrize("pair", [Options(bystander=True)], indirect=True)
@pytest.mark.parametrize(("count", "seconds"), [(24, 10), (120, 40)])
def test_pressing(pair: Pair, count: int, seconds: int) -> None:
    """Connections at full credit leave the server its memory and its threads, and lose nothing.

    The honest client's times are printed only: the software device takes all time of the server's
    processors if the host lets the crowd press hard enough.
    """
    pair.server.sh(f"touch /srv/export/looks; echo 1 > {SPLICE}")
    try:
        for guest in (pair.client, pair.server):
            guest.sh(QUEUE)
        with bystander.mounted(pair, "3") as honest:
            free = free_kilobytes(pair.server)
            found = _press(pair, honest, count, seconds)
            left = _used(pair, free)
            assert honest.sh(f"cat {bystander.MOUNT_POINT}/looks") == ""
    finally:
        pair.server.sh(f"echo 0 > {SPLICE}")
        for guest in (pair.client, pair.server):
            guest.run("tc qdisc del dev eth0 root")
    for kind in KINDS:
        print(f"{kind}: {found.fared[kind]}")
    for place, name in enumerate(("longest", "median")):
        alone, beside = found.quiet[place] * 1000, found.times[place] * 1000
        print(f"{name} GETATTR: {alone:.1f} ms quiet, {beside:.1f} ms beside them")
    print(f"threads of nfsd that do not wait for a client: {found.free}")
    print(f"{found.kilobytes} kB of the server in use, {left} kB afterwards")
    bound = count * EACH + _total(pair) // 8
    assert found.kilobytes < bound, f"more than {bound} kB"
    assert pair.server.sh("awk '/^oom_kill / {print $2}' /proc/vmstat").strip() == "0"
    assert all(found.fared[kind].answered for kind in KINDS)
    assert not any(found.fared[kind].failed for kind in KINDS)
    assert not any(found.fared[kind].lost for kind in KINDS if kind != "stop")
    assert left < LEFT
    # A call of the honest client finds a thread, as soon as there is time of a processor.
    assert found.free.count(0) <= len(found.free) // 2
