# SPDX-License-Identifier: GPL-2.0
"""`make soak`: verified work on three mounts under a sequence of random faults.

After each fault all workers must make progress. At the end the soak compares every byte on both
sides, unmounts, unloads the module, and searches both consoles for reports (on the debug kernel
also the memory for leaks). No resource of either guest may grow with time. With a disk
(``EXPORT=ext4``) the server crashes too. ``SOAK_TIME`` is in seconds; ``SOAK_SEED`` repeats a
sequence of faults.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import accel, accesses, demo, device, growth, harness, kernel, paths, settings, splat
from .errors import LabError
from .module import chosen
from .pair import MOUNT_POINT, Guest, Pair, Setup
from .progress import say, step
from .soak_faults import CRASH, Faults, NotInflicted
from .worker import Worker

#: Mount point, version and further options of each mount.
MOUNTS = (
    (MOUNT_POINT, "4.2", "nosharecache"),
    ("/mnt/three", "3", "nosharecache"),
    ("/mnt/four", "4.1", "nosharecache,nconnect=4"),
)
#: Seconds within which every worker must make progress after a fault, and the operations for that.
PATIENCE, PROOF = 120.0, 10
#: Repeated work through the page cache: the program writes, drops the cache, and checks.
CACHED = (
    "while [ ! -e /run/soak.stop ]; do for suite in offsets append mmap names; do"
    f" rm -rf {MOUNT_POINT}/cached && python3 /lab/verify.py write $suite {MOUNT_POINT}/cached"
    " && sync && echo 3 > /proc/sys/vm/drop_caches &&"
    f" python3 /lab/verify.py check $suite {MOUNT_POINT}/cached || exit 1; done; done"
)


@dataclass
class Tally:
    """The recoveries from one kind of fault."""

    recoveries: list[float] = field(default_factory=list)


class Soak:
    """One run of the soak."""

    def __init__(self, pair: Pair, seed: int) -> None:
        """Mounts everything and starts the workers."""
        self._pair, self._chance = pair, random.Random(seed)
        pair.load()
        for at, version, options in MOUNTS:
            pair.mount(version, options=options, at=at)
        self._workers = [
            Worker(pair, f"soak{index}", at=at) for index, (at, _, _) in enumerate(MOUNTS)
        ]
        self._cached = pair.client.vm.start(CACHED)
        self._tallies: dict[str, Tally] = {}
        self._growth = {guest.name: growth.Growth(guest.name) for guest in self._guests()}

    def _guests(self) -> tuple[Guest, Guest]:
        return self._pair.server, self._pair.client

    def run(self, seconds: float) -> None:
        """Inflicts one fault after the other until the time is over."""
        began = time.monotonic()
        faults = Faults(self._pair, self._chance).kinds()
        while (now := time.monotonic() - began) < seconds:
            name = self._chance.choice(sorted(faults))
            try:
                detail = faults[name]()
            except NotInflicted as why:
                say(f"{now:6.0f} s  {name}: not inflicted: {why}")
                time.sleep(self._chance.uniform(1, 10))
                continue
            took = self._recover()
            if self._pair.client.vm.agent.poll(self._cached):
                raise LabError("the work through the page cache has ended")
            self._tallies.setdefault(name, Tally()).recoveries.append(took)
            if name == CRASH:
                self._growth[self._pair.server.name].restart()
            for guest in self._guests():
                slab = growth.caches(guest.read("/proc/slabinfo"))
                self._growth[guest.name].note(time.monotonic() - began, growth.sample(guest), slab)
            say(f"{now:6.0f} s  {name} ({detail}): all workers make progress after {took:.1f} s")
            time.sleep(self._chance.uniform(1, 10))

    def _recover(self) -> float:
        """Waits until every worker makes progress; returns the seconds that the last one took."""
        began = time.monotonic()
        wanted = [worker.progress() + PROOF for worker in self._workers]
        for worker, operations in zip(self._workers, wanted, strict=True):
            worker.await_operations(operations, PATIENCE - (time.monotonic() - began))
        return time.monotonic() - began

    def finish(self) -> None:
        """Compares all data, unmounts and unloads the module.

        # Errors
        `AssertionError` for wrong data or a failed operation.
        """
        client = self._pair.client
        client.sh("touch /run/soak.stop")
        for worker, (at, version, _) in zip(self._workers, MOUNTS, strict=True):
            said = worker.finish(600)
            say(f"NFSv{version} at {at}: {said}")
            assert "errors=0" in said, "an operation failed on a hard mount"
        done = client.vm.agent.wait(self._cached, 600)
        assert done.status == 0, f"through the page cache: {done.stderr.decode()[-500:]}"
        for at, _, _ in MOUNTS:
            self._pair.umount(at)
        self._pair.unload(30)
        self._pair.stop_nfsd()
        self._pair.unload_server(30)

    def table(self) -> str:
        """Returns a table of the faults and recoveries."""
        lines = [f"{'fault':24} {'times':>6} {'longest recovery':>18}"]
        for name, tally in sorted(self._tallies.items()):
            longest = f"{max(tally.recoveries):.1f} s"
            lines.append(f"{name:24} {len(tally.recoveries):6} {longest:>18}")
        for guest in self._growth.values():
            lines += guest.table()
        return "\n".join(lines)

    @property
    def judged(self) -> bool:
        """Whether there are enough samples of both guests to see a resource grow."""
        return not any(guest.unjudged for guest in self._growth.values())

    def grown(self) -> list[str]:
        """Returns a line for each resource that has grown with time."""
        return [line for guest in self._growth.values() for line in guest.faults()]


def _boot(directory: Path) -> tuple[Pair, bool]:
    """Boots a pair with a relay; returns it, and whether its kernel searches for leaks."""
    built, module = demo.prepare(settings.client(), settings.flavour())
    server = kernel.ensure(built.flavour, "server")
    setup = Setup(
        built,
        module,
        chosen(server, settings.server()),
        server,
        link=settings.link(),
        dma=settings.dma(),
        files=device.files(built, settings.link(), settings.dma()),
        server_files=device.files(server, settings.link(), settings.dma()),
        accel=accel.choose(built),
        cpus=settings.cpus(built.flavour),
        relay=True,
        export=settings.export(),
    )
    with step("booting two guests", directory):
        return Pair(setup, directory), built.flavour == "debug"


def main(arguments: Sequence[str]) -> int:
    """``lab soak``: returns 0 without a fault of the module."""
    argparse.ArgumentParser(prog="lab soak", description=__doc__).parse_args(arguments)
    seconds, seed = settings.soak_time(), settings.soak_seed()
    pair, debug = _boot(paths.run_directory("soak"))
    with pair:
        if debug:
            for guest in (pair.server, pair.client):
                guest.sh(f"echo clear > {harness.KMEMLEAK}")
        say(f"soaking for {seconds} s, {settings.modules()}")
        say(f"SOAK_SEED={seed} repeats this sequence of faults")
        soak = Soak(pair, seed)
        try:
            soak.run(seconds)
            soak.finish()
            leaks = [harness.leaks(guest) for guest in (pair.client, pair.server)] if debug else []
            faults = [*filter(None, leaks), *soak.grown(), *accesses.muted(pair)]
        except (LabError, AssertionError) as err:
            faults = [str(err)]
        print(soak.table())
        for guest in (pair.server, pair.client):
            stock_over_siw = pair.setup.link == "siw" and settings.server() == "stock"
            found, reports = (
                splat.find(guest.console(), bad_link=True, iwarp=stock_over_siw, lab_dma=judged)
                for judged in (False, pair.setup.dma == "iommu")
            )
            if passed := len(found) - len(reports):
                say(f"{guest.name}: passed over {passed} reports of DMA debugging about syncs")
            faults += [f"{guest.name}: {report}" for report in reports]
    for fault in faults:
        print(fault)
    fine = "nothing wrong" if soak.judged else "nothing wrong, but growth was not judged"
    say(f"soak of {seconds} s: {f'{len(faults)} faults' if faults else fine}")
    return 1 if faults else 0
