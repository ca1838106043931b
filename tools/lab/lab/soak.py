# SPDX-License-Identifier: GPL-2.0
"""`make soak`: verified work on three mounts under a sequence of random faults.

After each fault all workers must make progress. At the end the soak compares every byte on both
sides, unmounts, unloads the module, and searches both consoles for reports (on the debug kernel
also the memory for leaks). ``SOAK_TIME`` is in seconds; ``SOAK_SEED`` repeats a sequence of
faults.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import accel, demo, device, harness, kernel, paths, settings, splat
from .errors import LabError
from .module import chosen
from .pair import MOUNT_POINT, Pair, Setup
from .progress import say, step
from .worker import Worker

#: Mount point, version and further options of each mount.
MOUNTS = (
    (MOUNT_POINT, "4.2", "nosharecache"),
    ("/mnt/three", "3", "nosharecache"),
    ("/mnt/four", "4.1", "nosharecache,nconnect=4"),
)
#: Seconds within which every worker must make progress after a fault, and the operations for that.
PATIENCE, PROOF = 120.0, 10
FAIL_SUNRPC = "/sys/kernel/debug/fail_sunrpc"
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


class Faults:
    """The faults; each method inflicts one, and returns a description when the fault is over."""

    def __init__(self, pair: Pair, chance: random.Random) -> None:
        """`chance` chooses lengths and kinds."""
        assert pair.relay is not None
        self._pair, self._relay, self._chance = pair, pair.relay, chance

    def kinds(self) -> dict[str, Callable[[], str]]:
        """Returns the faults that this kernel can inflict, by name."""
        known = {
            "blackout": self._blackout,
            "bad link": self._bad_link,
            "nfsd restart": self._restart,
            "device removal": self._removal,
            "memory pressure": self._pressure,
        }
        if self._pair.client.run(f"test -d {FAIL_SUNRPC}").status == 0:
            known["injected disconnects"] = self._inject
        return known

    def _blackout(self) -> str:
        seconds = self._chance.choice((1, 3, 8, 20, 45))
        self._relay.set("blackout", 1)
        time.sleep(seconds)
        self._relay.set("blackout", 0)
        return f"{seconds} s"

    def _bad_link(self) -> str:
        names = self._chance.sample(("loss", "duplicate", "reorder", "late"), 2)
        rate = self._chance.choice((0.005, 0.01, 0.03))
        for name in names:
            self._relay.set(name, rate)
        time.sleep(10)
        for name in names:
            self._relay.set(name, 0)
        return f"{' and '.join(names)}, {rate:.1%}"

    def _restart(self) -> str:
        seconds = self._chance.choice((0, 2, 10))
        self._pair.restart_nfsd(seconds)
        return f"down for {seconds} s"

    def _removal(self) -> str:
        kind, client = self._pair.setup.link, self._pair.client
        seconds = self._chance.choice((0, 3, 8))
        client.sh(f"rdma link del {kind}0", timeout=60)
        time.sleep(seconds)
        client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
        return f"gone for {seconds} s"

    def _pressure(self) -> str:
        """Starts a process that takes most of the memory for some seconds, but is not killed."""
        program = (
            "import time\n"
            "free = [l for l in open('/proc/meminfo') if l.startswith('MemAvailable')][0]\n"
            "hog = bytearray(b'x') * ((int(free.split()[1]) - 200000) * 1024)\n"
            "time.sleep(5)\n"
        )
        self._pair.client.run("python3 -", stdin=program.encode(), timeout=60)
        return "5 s"

    def _inject(self) -> str:
        every = self._chance.choice((30, 100, 300))
        knobs = "echo Y > ignore-server-disconnect; echo Y > ignore-cache-wait; echo 0 > verbose"
        self._pair.client.sh(
            f"cd {FAIL_SUNRPC} && {knobs}; echo -1 > times; echo {every} > interval;"
            " echo 100 > probability; sleep 8; echo 0 > probability"
        )
        return f"every {every}th call, for 8 s"


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

    def run(self, seconds: float) -> None:
        """Inflicts one fault after the other until the time is over."""
        began = time.monotonic()
        faults = Faults(self._pair, self._chance).kinds()
        while (now := time.monotonic() - began) < seconds:
            name = self._chance.choice(sorted(faults))
            detail = faults[name]()
            took = self._recover()
            if self._pair.client.vm.agent.poll(self._cached):
                raise LabError("the work through the page cache has ended")
            self._tallies.setdefault(name, Tally()).recoveries.append(took)
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
        return "\n".join(lines)


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
            faults = [leak for leak in leaks if leak]
        except (LabError, AssertionError) as err:
            faults = [str(err)]
        print(soak.table())
        for guest in (pair.server, pair.client):
            stock_over_siw = pair.setup.link == "siw" and settings.server() == "stock"
            reports = splat.find(guest.console(), bad_link=True, iwarp=stock_over_siw)
            faults += [f"{guest.name}: {report}" for report in reports]
    for fault in faults:
        print(fault)
    say(f"soak of {seconds} s: {'nothing wrong' if not faults else f'{len(faults)} faults'}")
    return 1 if faults else 0
