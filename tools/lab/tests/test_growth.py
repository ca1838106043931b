# SPDX-License-Identifier: GPL-2.0
"""A leak is a slope that the scatter of the samples does not explain."""

import random

import pytest

from lab.growth import Growth, caches, resources

MEMINFO = """MemTotal: 1000 kB
MemFree: 300 kB
Buffers: 10 kB
Cached: 200 kB
SwapCached: 0 kB
AnonPages: 100 kB
Slab: 90 kB
SUnreclaim: 40 kB
KernelStack: 5 kB
PageTables: 5 kB
Percpu: 10 kB
"""


def test_resources() -> None:
    """Pages that no field names are those that somebody allocated as pages."""
    found = resources(MEMINFO, "992\t0\t1000\n", 6)
    assert found == {"slab, KiB": 40, "pages, KiB": 280, "connections": 6, "files": 992}


def _growth(leak: float, boots: int = 1, *, noise: float = 200.0) -> Growth:
    chance, found = random.Random(1), Growth("server")
    for boot in range(boots):
        if boot:
            found.restart()
        for look in range(60 // boots):
            time = (boot * 60 + look) * 30.0
            # Caches fill at first.
            height = 5000 * boot + min(look, 3) * 1000
            value = height + leak * look * 30 / 3600 + chance.uniform(-noise, noise)
            found.note(time, {"slab, KiB": value, "files": 7})
    return found


@pytest.mark.parametrize("boots", [1, 3])
def test_scatter_is_no_leak(boots: int) -> None:
    """Samples that scatter around a value, after a warm-up and whatever each boot begins with."""
    assert _growth(0, boots).faults() == []


@pytest.mark.parametrize("boots", [1, 3])
def test_leak(boots: int) -> None:
    """A slope of a few hundred kilobytes is found although single samples scatter as much."""
    (fault,) = _growth(8000, boots).faults()
    assert fault.startswith("server: slab, KiB: grows by ")


def test_steady_leak_without_scatter() -> None:
    """A straight line has no scatter at all."""
    found = Growth("client")
    for look in range(40):
        found.note(look * 10.0, {"connections": look})
    (fault,) = found.faults()
    assert "connections: grows by 360.0 an hour" in fault


def test_too_few_samples_are_not_judged() -> None:
    """A short soak has no slope, and says so."""
    found = Growth("client")
    for look in range(15):
        assert found.faults() == []
        assert found.table() == [f"client   growth: {found.unjudged.partition(': ')[2]}"]
        found.note(look * 10.0, {"connections": look})
    assert found.unjudged == "client   growth: not judged, 11 samples of 12"
    found.note(150.0, {"connections": 15})
    assert found.unjudged == ""
    assert "an hour" in found.table()[0]


SLABINFO = """slabinfo - version: 2.1
# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> ...
dentry 900 1024 192 21 1 : tunables 0 0 0 : slabdata 49 49 0
kmalloc-512 {0} {0} 512 16 2 : tunables 0 0 0 : slabdata 2 2 0
"""


def test_caches_that_grow_are_named() -> None:
    """The table names a cache that has grown since the warm-up, and none that stays."""
    found = Growth("client")
    for look in range(40):
        slab = caches(SLABINFO.format(100 + 2 * look))
        found.note(look * 10.0, {"slab, KiB": look}, slab)
    *_, last = found.table()
    assert last.split() == ["client", "slab", "kmalloc-512", "89", "KiB,", "+29"]
    assert "dentry" not in "".join(found.table())
