# SPDX-License-Identifier: GPL-2.0
"""Counts the accesses of the guests' devices behind the DMA API (`lab_dma` of tools/lab/device).

Each scenario with `DMA` shows that the devices worked as that mode says, and the run adds up their
accesses. When a pair ends, its modules are unloaded: DMA debugging reports a mapping that is left.
"""

from __future__ import annotations

from pathlib import Path

from .errors import LabError
from .pair import Guest, Pair

FOLDER = "/sys/kernel/debug/lab_dma"
#: The files of the folder that only take orders.
_ORDERS = "misbehave|overlap"
_DEVICES = "/sys/class/infiniband"
#: The file of the run's directory with one count for each scenario and guest.
_FILE = "accesses"
#: A fault of a guest behind an IOMMU: reports that the lab passes over have used up the number of
#: errors that the guest's init allows.
MUTE = "DMA debugging prints no further error"
#: The counters of mappings that one mode alone makes.
_EFFECTS = {"translated": "iommu", "bounced": "swiotlb"}


def counts(text: str) -> dict[str, int]:
    """Returns the counters of `lab_dma` by name, from the output of grep over its files."""
    pairs = (line.rpartition("/")[2].partition(":") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs}


def read(guest: Guest) -> dict[str, int]:
    """Returns the counters of a guest's `lab_dma`.

    `num_errors` is the number of errors that DMA debugging still prints.
    """
    files = f"$(ls | grep -vE '{_ORDERS}') ../dma-api/num_errors"
    return counts(guest.sh(f"cd {FOLDER} && grep -H . {files}"))


def faults(dma: str, before: dict[str, int], after: dict[str, int], *, busy: bool) -> list[str]:
    """Returns the ways in which a guest's device did not work as the mode says.

    `busy`: the device had work.
    """
    found = []
    if after["reports"]:
        found.append(f"{after['reports']} accesses or syncs without a mapping")
    if busy and after["accesses"] == before["accesses"]:
        found.append("the device has accessed nothing")
    if busy and after["syncs"] == before["syncs"]:
        found.append("no memory was synced")
    if dma == "iommu" and not after["num_errors"]:
        found.append(MUTE)
    for counter, mode in _EFFECTS.items():
        # The device has mapped memory since the boot, but every scenario has to show the mode.
        grown = after[counter] > (before[counter] if busy and mode == dma else 0)
        if grown != (mode == dma):
            found.append(f"{counter}: {before[counter]}, then {after[counter]}")
    return found


class Accesses:
    """The accesses of a pair's devices, from scenario to scenario."""

    def __init__(self, directory: Path) -> None:
        """`directory`: the place of the run's sum."""
        self._file = directory / _FILE
        self._before: dict[str, dict[str, int]] = {}

    def begin(self, pair: Pair) -> None:
        """Reads the counters before a scenario."""
        if pair.setup.dma != "none":
            self._before = {guest.name: read(guest) for guest in (pair.server, pair.client)}

    def end(self, pair: Pair, *, busy: bool) -> list[str]:
        """Notes the scenario's accesses and returns what was wrong with them.

        # Errors
        `GuestError` when a guest does not answer.
        """
        found: list[str] = []
        if pair.setup.dma == "none":
            return found
        with self._file.open("a") as file:
            for guest in (pair.server, pair.client):
                before, after = self._before[guest.name], read(guest)
                wrong = faults(pair.setup.dma, before, after, busy=busy)
                found += [f"{guest.name}: DMA={pair.setup.dma}: {text}" for text in wrong]
                file.write(f"{after['accesses'] - before['accesses']}\n")
        return found


def total(directory: Path) -> int:
    """Returns the sum of the accesses in a run's directory."""
    lines = (line for file in directory.rglob(_FILE) for line in file.read_text().splitlines())
    return sum(map(int, lines))


def muted(pair: Pair) -> list[str]:
    """Returns a line for each guest behind an IOMMU in which an error would go unseen.

    # Errors
    `GuestError` when a guest does not answer.
    """
    guests = (pair.server, pair.client) if pair.setup.dma == "iommu" else ()
    return [f"{guest.name}: {MUTE}" for guest in guests if not read(guest)["num_errors"]]


def take_down(pair: Pair) -> list[str]:
    """Unloads the modules of a pair that ends; returns the mappings that are left, or the failure.

    The consoles have a report of DMA debugging then for each guest with a mapping that is left.
    """
    if pair.setup.dma == "none" or not pair.alive:
        return []
    found = []
    try:
        pair.stop_nfsd()
        for guest, unload in ((pair.client, pair.unload), (pair.server, pair.unload_server)):
            if guest.run("grep -q ^rpcrdma /proc/modules").status == 0:
                unload(30)
            # With lockdep the queue pairs of a device refer to its module (lab-traps.rst).
            guest.sh(f"for name in $(ls {_DEVICES}); do rdma link delete $name || exit 1; done")
            unload(30, module=f"{pair.setup.link}_dma")
            if left := read(guest)["live"]:
                found.append(f"{guest.name}: {left} mappings are left without the device")
            guest.sh("rmmod lab_dma")
    except LabError as err:
        found.append(f"the device was not unloaded: {err}")
    return found
