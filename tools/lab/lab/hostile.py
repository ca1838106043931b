# SPDX-License-Identifier: GPL-2.0
"""A hostile peer in the server's place, and the client that has to live with it.

The mount and its load are set up against the real server. Then nfsd gives up the RDMA port, the
hostile peer takes it, answers what reconnects to it, and goes; nfsd takes the port back.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import mountstats, paths
from .agent import Exit
from .command import capture
from .errors import GuestError
from .pair import MOUNT_POINT, Guest, Pair

BREACHES = "/sys/kernel/debug/rpcrdma/breaches"
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror")


def build() -> Path:
    """The hostile peer's verbs part, compiled into the cache.

    The guests run the host's own Debian release, so the libraries match.
    """
    source = paths.LAB / "hostile/hostile.c"
    target = paths.sub("tools") / "hostile"
    with paths.locked("hostile"):
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            capture(["gcc", *_FLAGS, "-o", target, source, "-libverbs", "-lrdmacm"])
    return target


@dataclass(frozen=True)
class Deed:
    """One thing the peer has done, and what the client should have noted."""

    counter: str
    times: int
    events: tuple[str, ...]
    text: str


def deeds(output: str) -> list[Deed]:
    """The ``did`` lines of guest/hostile.py."""
    found = []
    for line in output.splitlines():
        if line.startswith("did "):
            _, counter, times, events, text = line.split(" ", 4)
            names = () if events == "-" else tuple(events.split(","))
            found.append(Deed(counter, int(times), names, text))
    return found


def counters(client: Guest, mount_point: str = MOUNT_POINT) -> dict[str, int]:
    """The transport's counters and the module's counts of breaches, in one."""
    known = mountstats.parse(client.read("/proc/self/mountstats"), mount_point)
    for line in client.read(BREACHES).splitlines():
        name, value = line.split()
        known[name] = int(value)
    return known


class Worker:
    """guest/worker.py on the client: verified reads and writes until told to stop."""

    #: Operations that it has under way at a time.
    THREADS = 4

    def __init__(
        self, pair: Pair, directory: str = "w", *, at: str = MOUNT_POINT, block: int = 65536
    ) -> None:
        """Start it in a fresh directory of the mount and wait until it is well under way.

        `block`: how much it writes and reads at a time; 1024 bytes go inline.
        """
        self._pair, self._name = pair, directory
        self._control = f"/run/worker-{directory}"
        where = f"{at}/{directory}"
        pair.client.sh(f"rm -rf {self._control}* {where}; mkdir -p {where}", timeout=120)
        # Whoever asks the guest something meanwhile must not wait for its arithmetic.
        worker = f"exec nice python3 /lab/worker.py --block {block} {where} {self._control}"
        self._pid = pair.client.vm.start(worker)
        self.await_progress(30, 120)

    def progress(self) -> int:
        """Operations that went well so far."""
        return int(self._status()[0])

    def mark(self) -> None:
        """Have standstills count anew from here on."""
        mark = f"{self._control}.mark"
        self._pair.client.sh(f"touch {mark}; while [ -e {mark} ]; do sleep 0.02; done")

    def standstill(self) -> float:
        """Most seconds between two operations that went well since `mark`."""
        # What it tells may be older than the last operation.
        time.sleep(0.3)
        return float(self._status()[2])

    def _status(self) -> list[str]:
        done = self._pair.client.run(f"cat {self._control}.status")
        return done.stdout.decode().split() if done.status == 0 else ["0", "0", "0"]

    def await_progress(self, operations: int, limit: float) -> float:
        """Wait for so many more operations; the seconds it took.

        # Errors
        `GuestError` when they were not done within `limit` seconds, or the worker has ended.
        """
        return self.await_operations(self.progress() + operations, limit)

    def await_operations(self, operations: int, limit: float) -> float:
        """Wait until so many went well in all; the seconds it took.

        # Errors
        As of `await_progress`.
        """
        began = time.monotonic()
        while (done := self.progress()) < operations:
            ended = self._pair.client.vm.agent.poll(self._pid)
            if ended:
                raise GuestError(f"the worker ended: {_text(ended)}")
            if time.monotonic() > began + limit:
                stuck = f"{done} operations, not {operations}, after {limit:.0f} s more"
                raise GuestError(f"{stuck}: {self._stuck()}")
            time.sleep(0.1)
        return time.monotonic() - began

    def finish(self, limit: float = 200) -> str:
        """Let it end, and compare what it believes with what the server has; its last line."""
        client, server = self._pair.client, self._pair.server
        client.sh(f"touch {self._control}.stop")
        done = client.vm.agent.wait(self._pid, limit)
        if done.status:
            raise AssertionError(f"the worker ended {done.status}: {_text(done)}")
        here = client.sh(f"sha256sum < {self._control}.expected")
        there = server.sh(f"sha256sum < /srv/export/{self._name}/blocks")
        assert here == there, "the server has something else than the client wrote"
        return done.stdout.decode().strip()

    def _stuck(self) -> str:
        """Where its threads wait."""
        threads = f"/proc/$(pgrep -f {self._control}$)/task/*"
        done = self._pair.client.run(f"for t in {threads}; do head -4 $t/stack; echo; done")
        return done.stdout.decode()


def _text(done: Exit) -> str:
    return (done.stdout + done.stderr).decode(errors="replace").strip()[-1500:]


def take_port(pair: Pair, group: str, version: str = "4.2") -> int:
    """Put guest/hostile.py in nfsd's place, which goes on without RDMA; its process id."""
    pair.stop_nfsd()
    command = f"exec python3 /lab/hostile.py {group} {version} > /run/hostile.log 2>&1"
    pid = pair.server.vm.start(command)
    deadline = time.monotonic() + 120
    while "ready" not in pair.server.run("cat /run/hostile.log").stdout.decode():
        if pair.server.vm.agent.poll(pid) or time.monotonic() > deadline:
            _kill(pair, pid)
            raise GuestError(f"the hostile peer: {pair.server.read('/run/hostile.log')}")
        time.sleep(0.05)
    pair.server.sh(f"rpc.nfsd {pair.setup.threads}", timeout=120)
    return pid


def _kill(pair: Pair, pid: int) -> None:
    """End it; the port is free when its verbs part is gone."""
    pair.server.run(f"kill {pid}; while pkill -KILL -x hostile; do sleep 0.1; done")


def finish(pair: Pair, pid: int, limit: float) -> str:
    """Wait for its end; what it printed.

    # Errors
    `AssertionError` if the client fell silent, or did anything else that kept it from its end.
    """
    with suppress(GuestError):
        done = pair.server.vm.agent.wait(pid, limit)
        text = pair.server.read("/run/hostile.log")
        assert done.status == 0, f"the hostile peer ended {done.status}: {text[-1500:]}"
        return text
    text = pair.server.read("/run/hostile.log")
    _kill(pair, pid)
    raise AssertionError(f"the hostile peer still runs after {limit:.0f} s: {text[-1500:]}")


def return_port(pair: Pair) -> None:
    """The port is the real server's again."""
    pair.server.sh("echo 'rdma 20049' > /proc/fs/nfsd/portlist", timeout=120)


def expected(done: list[Deed]) -> tuple[Counter[str], Counter[str]]:
    """How far counters and events must have moved."""
    moved: Counter[str] = Counter()
    fired: Counter[str] = Counter()
    for deed in done:
        if deed.counter != "-":
            moved[deed.counter] += deed.times
        for event in deed.events:
            fired[event] += deed.times
    return moved, fired
