# SPDX-License-Identifier: GPL-2.0
"""Puts a hostile responder in the server's place and compares the client's reactions.

A scenario mounts and starts its load against the real server. Then nfsd releases the RDMA port,
the hostile peer (guest/hostile.py) takes the port, answers the client when it reconnects, and
ends; nfsd takes the port back.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from . import mountstats
from .errors import GuestError
from .fixtures import BREACHES
from .pair import MOUNT_POINT, Guest, Pair


@dataclass(frozen=True)
class Deed:
    """A breach by the peer, with the counter and the events that it must cause."""

    counter: str
    times: int
    events: tuple[str, ...]
    text: str


def deeds(output: str) -> list[Deed]:
    """Parses the ``did`` lines that guest/hostile.py prints.

    # Errors
    `AssertionError` without such a line: the peer has committed no breach.
    """
    found = []
    for line in output.splitlines():
        if line.startswith("did "):
            _, counter, times, events, text = line.split(" ", 4)
            names = () if events == "-" else tuple(events.split(","))
            found.append(Deed(counter, int(times), names, text))
    assert found, "the hostile peer committed no breach"
    return found


def counters(client: Guest, mount_point: str = MOUNT_POINT) -> dict[str, int]:
    """Returns the counters of mountstats and the module's breach counters in one table."""
    known = mountstats.parse(client.read("/proc/self/mountstats"), mount_point)
    for line in client.read(BREACHES).splitlines():
        name, value = line.split()
        known[name] = int(value)
    return known


def take_port(pair: Pair, group: str, version: str = "4.2", *, program: str = "hostile.py") -> int:
    """Starts a hostile server on the RDMA port, which nfsd releases; returns the pid."""
    pair.stop_nfsd()
    command = f"exec python3 /lab/{program} {group} {version} > /run/hostile.log 2>&1"
    pid = pair.server.vm.start(command)
    deadline = time.monotonic() + 120
    while "ready" not in pair.server.run("cat /run/hostile.log").stdout.decode():
        if pair.server.vm.agent.poll(pid) or time.monotonic() > deadline:
            drop(pair, pid)
            raise GuestError(f"the hostile peer: {pair.server.read('/run/hostile.log')}")
        time.sleep(0.05)
    pair.server.sh(f"rpc.nfsd {pair.setup.threads}", timeout=120)
    return pid


def drop(pair: Pair, pid: int) -> None:
    """Ends the peer. The port is free once the verbs program has ended."""
    pair.server.run(f"kill {pid}; while pkill -KILL -x hostile; do sleep 0.1; done")


def finish(pair: Pair, pid: int, limit: float) -> str:
    """Waits until the peer has ended and returns its output.

    # Errors
    `AssertionError` when the peer failed, or has not ended within `limit` seconds, for example
    because the client sends no more calls.
    """
    with suppress(GuestError):
        done = pair.server.vm.agent.wait(pid, limit)
        text = pair.server.read("/run/hostile.log")
        assert done.status == 0, f"the hostile peer ended {done.status}: {text[-1500:]}"
        return text
    text = pair.server.read("/run/hostile.log")
    drop(pair, pid)
    raise AssertionError(f"the hostile peer still runs after {limit:.0f} s: {text[-1500:]}")


def return_port(pair: Pair) -> None:
    """Gives the RDMA port back to nfsd."""
    pair.server.sh("echo 'rdma 20049' > /proc/fs/nfsd/portlist", timeout=120)


def expected(done: list[Deed]) -> tuple[Counter[str], Counter[str]]:
    """Returns how often each counter and each event must have moved."""
    moved: Counter[str] = Counter()
    fired: Counter[str] = Counter()
    for deed in done:
        if deed.counter != "-":
            moved[deed.counter] += deed.times
        for event in deed.events:
            fired[event] += deed.times
    return moved, fired
