# SPDX-License-Identifier: GPL-2.0
"""Many connections that press the server, beside an honest client."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from lab.bench.server.connections import looking
from lab.crowd import KINDS, Pressed, Pressing, await_queue_pairs, queue_pairs
from lab.memory import free_kilobytes
from lab.pair import MOUNT_POINT, Pair

pytestmark = [
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
EACH = 1180 + 536 + 2132 + 512 + 2 * 1024
#: Kilobytes of the server that a crowd may leave behind: slabs that fill up.
LEFT = 12_000
#: Seconds in which a server has to forget connections.
FORGETTING = 60.0


@dataclass(frozen=True)
class Found:
    """The measurements while a crowd pressed."""

    fared: dict[str, Pressed]
    kilobytes: int
    #: The longest and the median seconds of the honest client's calls.
    times: list[float]


def _used(pair: Pair, free: int) -> int:
    return free - free_kilobytes(pair.server)


def _press(pair: Pair, count: int, seconds: float) -> Found:
    free = free_kilobytes(pair.server)
    pressing = Pressing(pair, count, seconds)
    with looking(pair) as times:
        most = 0
        ends = time.monotonic() + seconds * 0.8
        while time.monotonic() < ends:
            most = max(most, _used(pair, free))
    fared = pressing.finish()
    pressing.leave()
    return Found(fared, most, times)


def _total(pair: Pair) -> int:
    return int(pair.server.sh("awk '/^MemTotal/ {print $2}' /proc/meminfo"))


@pytest.mark.parametrize(
    ("count", "seconds"), [(24, 10), pytest.param(120, 40, marks=pytest.mark.full)]
)
def test_pressing(pair: Pair, count: int, seconds: int) -> None:
    """Connections at full credit leave the server its memory, and lose nothing.

    The honest client shares its processor with the crowd, so its times are printed only.
    """
    pair.server.sh(f"touch /srv/export/looks; echo 1 > {SPLICE}")
    pair.mount("3", options="nolock,actimeo=0")
    try:
        with looking(pair) as quiet:
            time.sleep(3)
        before, free = queue_pairs(pair.server), free_kilobytes(pair.server)
        found = _press(pair, count, seconds)
        await_queue_pairs(pair.server, before, FORGETTING)
        left = _used(pair, free)
    finally:
        pair.server.sh(f"echo 0 > {SPLICE}")
    for kind in KINDS:
        print(f"{kind}: {found.fared[kind]}")
    print(f"GETATTR: {quiet[1] * 1000:.1f} ms quiet, {found.times[1] * 1000:.1f} ms beside them")
    print(f"longest: {quiet[0] * 1000:.1f} ms quiet, {found.times[0] * 1000:.1f} ms beside them")
    print(f"{found.kilobytes} kB of the server in use, {left} kB afterwards")
    bound = count * EACH + _total(pair) // 8
    assert found.kilobytes < bound, f"more than {bound} kB"
    assert pair.server.sh("awk '/^oom_kill / {print $2}' /proc/vmstat").strip() == "0"
    assert all(found.fared[kind].answered for kind in KINDS)
    assert not any(found.fared[kind].failed for kind in KINDS)
    assert not any(found.fared[kind].lost for kind in KINDS if kind != "stop")
    assert left < LEFT
    assert pair.client.sh(f"cat {MOUNT_POINT}/looks") == ""
    pair.umount()
