# SPDX-License-Identifier: GPL-2.0
"""Measures how long a fault stops the work on a mount, with either module.

The work is that of guest/worker.py: verified reads and writes, one worker with each version of NFS,
all mounted at once. The figure is the stall that the worker observes: the longest time between two
successful operations, from before the fault until five more have succeeded after it. The time of
the fault is part of the stall.

The last row has another figure: the time from ``umount -f`` to the end of the module when the
server is dead.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import GuestError
from ..pair import Guest, Pair, Setup
from ..progress import say
from ..worker import Worker
from .figures import MODULES, Figures
from .turns import in_turn

#: Operations that prove progress.
PROOF = 5
VERSIONS = ("3", "4.2")
#: Seconds that `umount -f` and the removal of the module may take together.
UNLOADING = 120.0
UNLOAD = "umount"
NEVER = math.inf


def _blackout(pair: Pair, seconds: float) -> None:
    assert pair.relay is not None
    pair.relay.set("blackout", 1)
    time.sleep(seconds)
    pair.relay.set("blackout", 0)


def _without_device(pair: Pair, guest: Guest, seconds: float) -> None:
    kind = pair.setup.link
    guest.sh(f"rdma link del {kind}0", timeout=300)
    time.sleep(seconds)
    guest.sh(f"rdma link add {kind}0 type {kind} netdev eth0")


@dataclass(frozen=True)
class Row:
    """A fault, and the seconds after its end within which the worker must make progress."""

    title: str
    inflict: Callable[[Pair], None]
    limit: float


ROWS: dict[str, Row] = {
    "restart": Row("nfsd restart, 2 s", lambda pair: pair.restart_nfsd(2), 100),
    "blackout-5": Row("blackout, 5 s", lambda pair: _blackout(pair, 5), 100),
    "blackout-40": Row("blackout, 40 s", lambda pair: _blackout(pair, 40), 120),
    "server-device": Row(
        "server's device gone, 2.5 s", lambda pair: _without_device(pair, pair.server, 2.5), 100
    ),
    "client-device": Row(
        "client's device gone, 3 s", lambda pair: _without_device(pair, pair.client, 3), 120
    ),
    "listener": Row("listener gone, 7 s", lambda pair: pair.restart_nfsd(7), 100),
}
NAMES = (*ROWS, UNLOAD)


@dataclass(frozen=True)
class Mount:
    """A mount and its worker."""

    version: str
    worker: Worker


def _place(version: str) -> str:
    return f"/mnt/v{version}"


def _mount(pair: Pair, version: str, options: str = "") -> None:
    words = [options, "nosharecache", "nolock" if version == "3" else ""]
    pair.mount(version, options=",".join(filter(None, words)), at=_place(version))


class Bench:
    """The pair of guests; the bench boots another one when a fault has made it unusable."""

    def __init__(self, setup: Setup, directory: Path, versions: Sequence[str]) -> None:
        """Boots nothing yet."""
        self._setup, self._directory = replace(setup, relay=True), directory
        self._versions, self._boots = versions, 0
        self._pair: Pair | None = None
        self.figures = Figures()

    def pair(self) -> Pair:
        """Returns the pair, and boots one if there is none."""
        if self._pair is None:
            self._boots += 1
            self._pair = Pair(self._setup, self._directory / f"pair-{self._boots}")
        return self._pair

    def discard(self) -> None:
        """Ends the pair."""
        if self._pair:
            self._pair.stop()
        self._pair = None

    def stalls(self, module: str, rows: Sequence[str]) -> None:
        """Inflicts each of these faults once; mounts again after a fault that stopped the work."""
        left = list(rows)
        while left:
            mounts = self._set_up(module)
            while left and all(self._stall(module, mounts, left.pop(0))):
                pass
            self._end(mounts)

    def _set_up(self, module: str) -> list[Mount]:
        pair = self.pair()
        pair.server.sh("rm -rf /srv/export/*")
        pair.client.sh(f"insmod /lab/{module}.ko")
        mounts = []
        for version in self._versions:
            _mount(pair, version)
            worker = Worker(pair, f"w{version}", at=_place(version))
            mounts.append(Mount(version, worker))
        return mounts

    def _stall(self, module: str, mounts: Iterable[Mount], name: str) -> list[bool]:
        """Inflicts one fault; returns whether each worker has made progress."""
        pair, row = self.pair(), ROWS[name]
        for mount in mounts:
            mount.worker.mark()
        began = time.monotonic()
        row.inflict(pair)
        over = time.monotonic()
        went_on = []
        for mount in mounts:
            stall = _recovered(mount.worker, over + row.limit)
            self.figures.note(f"{row.title}, NFSv{mount.version}", "s", module, stall)
            lasted = f"the fault {over - began:.1f} s, the stall {_seconds(stall)} s"
            say(f"{module}, NFSv{mount.version}, {row.title}: {lasted}")
            went_on.append(stall < NEVER)
        return went_on

    def _end(self, mounts: Sequence[Mount]) -> None:
        """Compares the data, unmounts and unloads; discards the pair if that fails."""
        pair = self.pair()
        try:
            for mount in mounts:
                said = mount.worker.finish(200)
                if "errors=0" not in said:
                    raise AssertionError(f"NFSv{mount.version}: {said}")
                pair.umount(_place(mount.version))
            pair.unload()
        except GuestError as err:
            say(f"booting another pair, since this one does not recover: {err}")
            self.discard()

    def unloading(self, module: str) -> None:
        """Measures the time from ``umount -f`` of all mounts to rmmod while the server is dead."""
        pair = self.pair()
        readers = self._readers(module)
        began = time.monotonic()
        took = NEVER
        if _forced(pair, [_place(version) for version in self._versions], readers):
            took = _unloaded(pair, began + UNLOADING)
        self.figures.note("umount -f, dead server, to rmmod", "s", module, took)
        say(f"{module}, umount -f with a dead server, until rmmod: {_seconds(took)} s")
        if took == NEVER:
            self.discard()
        else:
            assert pair.relay is not None
            pair.relay.set("blackout", 0)

    def _readers(self, module: str) -> list[int]:
        """Starts a reader on each mount of a server that has just died."""
        pair = self.pair()
        pair.server.sh("rm -rf /srv/export/*; head -c 65536 /dev/urandom > /srv/export/f")
        pair.client.sh(f"insmod /lab/{module}.ko")
        reads = []
        for version in self._versions:
            # The client of NFSv4 destroys its session, and waits for that call like for any other.
            _mount(pair, version, "timeo=50,retrans=1")
            reads.append(f"dd if={_place(version)}/f of=/dev/null bs=4k count=1 iflag=direct")
            pair.client.sh(reads[-1])
        assert pair.relay is not None
        pair.relay.set("blackout", 1)
        readers = [pair.client.vm.start(read) for read in reads]
        time.sleep(3)
        return readers


def _recovered(worker: Worker, deadline: float) -> float:
    """Returns the stall of a worker that makes progress, NEVER if there is none by `deadline`."""
    try:
        worker.await_progress(PROOF, max(deadline - time.monotonic(), 5))
    except GuestError as err:
        say(str(err)[:2000])
        return NEVER
    return worker.standstill()


def _forced(pair: Pair, places: Sequence[str], readers: Sequence[int]) -> bool:
    """Unmounts by force; returns whether nothing is mounted then."""
    client = pair.client
    for place in places:
        # The first umount ends the calls in flight, but the reader still uses the mount.
        client.run(f"umount -f {place}", timeout=UNLOADING)
    try:
        for reader in readers:
            client.vm.agent.wait(reader, 30)
    except GuestError as err:
        say(str(err))
        return False
    for place in places:
        client.run(f"umount -f {place}", timeout=UNLOADING)
    return all(client.run(f"mountpoint -q {place}").status for place in places)


def _unloaded(pair: Pair, deadline: float) -> float:
    """Removes the module; returns the seconds since `umount -f`, or NEVER after the deadline."""
    while pair.client.run("rmmod rpcrdma").status:
        if time.monotonic() > deadline:
            return NEVER
        time.sleep(0.1)
    return time.monotonic() - (deadline - UNLOADING)


def recovery(
    setup: Setup,
    modules: Sequence[str],
    rounds: int,
    rows: Sequence[str],
    versions: Sequence[str],
    directory: Path,
) -> Figures:
    """Measures all rows in each round, with the modules in turns."""
    bench = Bench(setup, directory, versions)
    try:
        for turn in range(rounds):
            for module in in_turn(modules, turn):
                bench.stalls(module, [name for name in rows if name in ROWS])
                if UNLOAD in rows:
                    bench.unloading(module)
    finally:
        bench.discard()
    return bench.figures


def _seconds(value: float) -> str:
    return "never" if value == NEVER else f"{value:.1f}"


def table(figures: Figures) -> str:
    """Returns a table with the median and all values; ``never``: beyond the row's limit."""
    lines = [f"{'seconds':36}" + "".join(f" {m + ': median':>15} {'all':>20}" for m in MODULES)]
    for figure in figures:
        cells = ""
        for module in MODULES:
            values = figure.values.get(module, [])
            median = _seconds(statistics.median(values)) if values else "-"
            cells += f" {median:>15} {' '.join(_seconds(value) for value in values):>20}"
        lines.append(f"{figure.name:36}{cells}")
    return "\n".join(line.rstrip() for line in lines)


def records(figures: Figures) -> dict[str, dict[str, list[float | None]]]:
    """Returns the values for the JSON file, which has no infinity: ``never`` is null."""
    return {
        figure.name: {
            module: [value if value < NEVER else None for value in values]
            for module, values in figure.values.items()
        }
        for figure in figures
    }
