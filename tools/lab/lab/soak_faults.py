# SPDX-License-Identifier: GPL-2.0
"""The faults of `make soak`: those of the link, the device, the memory, and the server."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from . import settings
from .errors import LabError
from .pair import Guest, Pair

FAIL_SUNRPC = "/sys/kernel/debug/fail_sunrpc"
#: The fault after which the server has booted again.
CRASH = "server crash"


#: Takes the memory that is available, but for some that processes need, and prints the KiB.
_HOG = """
import time
free = [l for l in open("/proc/meminfo") if l.startswith("MemAvailable")][0]
size = max(0, int(free.split()[1]) - 200000)
hog = bytearray(b"x") * (size * 1024)
print(size)
time.sleep(5 if size else 0)
"""
#: Who ends a process with these statuses: timeout(1), and the kernel for want of memory.
_ENDED_BY = {124: "the time limit", 128 + 9: "the kernel"}


class NotInflicted(Exception):  # noqa: N818
    """The guest is in no state for a fault; the message says in which."""


class Faults:
    """The faults; each method inflicts one, and returns a description when the fault is over.

    # Errors
    `NotInflicted` of a method: there was no fault.
    """

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
            "nfsd threads": self._threads,
            "exports": self._exports,
        }
        if settings.server() == "ours":
            known["device of the server"] = self._server_removal
        if self._pair.disk:
            known[CRASH] = self._crash
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
        return self._without_device(self._pair.client)

    def _server_removal(self) -> str:
        return self._without_device(self._pair.server)

    def _without_device(self, guest: Guest) -> str:
        kind, seconds = self._pair.setup.link, self._chance.choice((0, 3, 8))
        guest.sh(f"rdma link del {kind}0", timeout=60)
        time.sleep(seconds)
        guest.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
        return f"gone for {seconds} s"

    def _threads(self) -> str:
        """Changes the number of nfsd's threads under load, and returns to the usual one."""
        numbers = [self._chance.choice((1, 2, 16, 64)) for _ in range(4)]
        for number in (*numbers, self._pair.setup.threads):
            self._pair.server.sh(f"rpc.nfsd {number}", timeout=120)
            time.sleep(1)
        return ", ".join(map(str, numbers))

    def _exports(self) -> str:
        """Has nfsd forget its exports and clients, for which it asks mountd again."""
        times = self._chance.choice((1, 5, 20))
        self._pair.server.sh(f"for i in $(seq {times}); do exportfs -f; sleep 0.2; done")
        return f"forgotten {times} times"

    def _crash(self) -> str:
        seed = self._chance.randrange(1 << 16)
        self._pair.crash_server(seed)
        self._pair.start_server()
        return f"disk with seed {seed}"

    def _pressure(self) -> str:
        """Starts a process that takes most of the memory for some seconds."""
        done = self._pair.client.run("python3 -", stdin=_HOG.encode(), timeout=60)
        if done.status in _ENDED_BY:
            return f"until {_ENDED_BY[done.status]} ended the process"
        if done.status:
            words = "".join(done.stderr.decode().splitlines()[-1:])
            raise LabError(f"the process for memory pressure ended {done.status}: {words}")
        size = int(done.stdout) // 1024
        if not size:
            raise NotInflicted("less than 200 MB are available")
        return f"{size} MiB for 5 s"

    def _inject(self) -> str:
        every = self._chance.choice((30, 100, 300))
        knobs = "echo Y > ignore-server-disconnect; echo Y > ignore-cache-wait; echo 0 > verbose"
        self._pair.client.sh(
            f"cd {FAIL_SUNRPC} && {knobs}; echo -1 > times; echo {every} > interval;"
            " echo 100 > probability; sleep 8; echo 0 > probability"
        )
        return f"every {every}th call, for 8 s"
