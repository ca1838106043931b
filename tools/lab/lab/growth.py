# SPDX-License-Identifier: GPL-2.0
"""Resources of a guest that grow with time: a leak shows as a slope, however small it is.

Samples are taken while the same work goes on. A resource grows if the straight line through its
samples rises, by more than the samples' own scatter explains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .crowd import queue_pairs
from .pair import Guest

#: Fields of /proc/meminfo whose pages are known; the rest of the memory was allocated as pages.
_KNOWN = (
    *("MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab", "KernelStack"),
    *("PageTables", "Percpu"),
)
#: The first part of the samples is left out: caches fill, and connections reach their sizes.
WARM_UP = 1 / 4
#: How many standard errors a slope must be above zero. Samples that follow each other are alike,
#: so that a chance slope has more of them than the tables for independent samples say.
CERTAIN = 6.0
#: The least number of samples from which a slope is read.
ENOUGH = 12
#: The number of caches of the slab that a table names: those that have grown most.
SHOWN = 4


def resources(meminfo: str, files: str, connections: int) -> dict[str, float]:
    """Returns the resources by name: kilobytes of slab and of other pages, connections, files."""
    fields = {name: int(size) for name, size in re.findall(r"^(\S+):\s+(\d+) kB", meminfo, re.M)}
    return {
        "slab, KiB": fields["SUnreclaim"],
        "pages, KiB": fields["MemTotal"] - sum(fields[name] for name in _KNOWN),
        "connections": connections,
        "files": int(files.split(maxsplit=1)[0]),
    }


def caches(slabinfo: str) -> dict[str, float]:
    """Returns the kilobytes of each cache of the slab, which /proc/slabinfo lists."""
    rows = (line.split() for line in slabinfo.splitlines()[2:])
    return {name: int(objects) * int(size) / 1024 for name, _, objects, size, *_ in rows}


def sample(guest: Guest) -> dict[str, float]:
    """Returns the resources of a guest now."""
    meminfo, files = guest.read("/proc/meminfo"), guest.read("/proc/sys/fs/file-nr")
    return resources(meminfo, files, queue_pairs(guest))


@dataclass(frozen=True)
class Slope:
    """The straight line through samples: its rise an hour, and how certain the rise is."""

    an_hour: float
    #: The rise in standard errors of the slope.
    certainty: float

    @property
    def grows(self) -> bool:
        """Whether chance does not explain the rise."""
        return self.an_hour > 0 and self.certainty > CERTAIN


def slope(boots: Sequence[Sequence[tuple[float, float]]]) -> Slope:
    """Returns the common slope of least squares through points (seconds, value).

    The points of each boot have a line of their own height.
    """
    points = [point for boot in boots for point in _centred(boot)]
    spread = sum(x * x for x, _ in points)
    rise = sum(x * y for x, y in points) / spread
    rest = sum((y - rise * x) ** 2 for x, y in points)
    error = math.sqrt(rest / (len(points) - len(boots) - 1) / spread)
    if error:
        return Slope(rise * 3600, rise / error)
    return Slope(rise * 3600, math.inf if rise else 0.0)


def _centred(boot: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    middle, mean = (sum(values) / len(boot) for values in zip(*boot, strict=True))
    return [(time - middle, value - mean) for time, value in boot]


@dataclass
class Growth:
    """The samples of one guest, by boot."""

    guest: str
    boots: list[list[tuple[float, Mapping[str, float]]]] = field(default_factory=lambda: [[]])
    #: The caches of the slab at each sample since the guest has booted.
    slab: list[Mapping[str, float]] = field(default_factory=list)

    def note(
        self, time: float, values: Mapping[str, float], slab: Mapping[str, float] | None = None
    ) -> None:
        """Adds a sample that was taken at a time in seconds."""
        self.boots[-1].append((time, values))
        self.slab.append(slab or {})

    def restart(self) -> None:
        """Notes that the guest has booted again."""
        self.boots.append([])
        self.slab.clear()

    def _used(self) -> list[list[tuple[float, Mapping[str, float]]]]:
        """Returns the samples from which slopes are read, by boot."""
        warm = [boot[math.ceil(len(boot) * WARM_UP) :] for boot in self.boots]
        return [boot for boot in warm if len(boot) > 1]

    @property
    def unjudged(self) -> str:
        """A line which says that there are too few samples; empty if there are enough."""
        count = sum(map(len, self._used()))
        if count >= ENOUGH:
            return ""
        return f"{self.guest:8} growth: not judged, {count} samples of {ENOUGH}"

    def slopes(self) -> dict[str, Slope]:
        """Returns the slope of each resource; nothing before there are enough samples."""
        if self.unjudged:
            return {}
        used = self._used()
        names = used[0][0][1]
        return {
            name: slope([[(time, values[name]) for time, values in boot] for boot in used])
            for name in names
        }

    def faults(self) -> list[str]:
        """Returns a line for each resource that grows."""
        return [
            f"{self.guest}: {name}: grows by {found.an_hour:,.1f} an hour"
            f" ({found.certainty:.1f} standard errors)"
            for name, found in self.slopes().items()
            if found.grows
        ]

    def table(self) -> list[str]:
        """Returns a line for each resource: its last value, its slope, and the certainty.

        With too few samples the only line says that.
        """
        if self.unjudged:
            return [self.unjudged]
        samples = [values for boot in self.boots for _, values in boot]
        lines = [
            f"{self.guest:8} {name:14} {samples[-1][name]:>12,.0f}"
            f" {found.an_hour:>12,.1f} an hour {found.certainty:>8.1f} standard errors"
            for name, found in self.slopes().items()
        ]
        return [*lines, *self._grown_caches()]

    def _grown_caches(self) -> list[str]:
        """Returns a line for each of the caches that have grown most since the warm-up."""
        warm = self.slab[math.ceil(len(self.slab) * WARM_UP) :]
        if len(warm) < 2:
            return []
        grown = {name: size - warm[0].get(name, 0) for name, size in warm[-1].items()}
        most = sorted(grown, key=lambda name: grown[name], reverse=True)[:SHOWN]
        return [
            f"{self.guest:8} slab {name:24} {warm[-1][name]:>12,.0f} KiB, {grown[name]:+,.0f}"
            for name in most
            if grown[name] > 0
        ]
