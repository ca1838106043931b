# SPDX-License-Identifier: GPL-2.0
"""Counts a guest kernel's instructions per NFS operation.

The clock says little in an emulator; the number of executed instructions is the same every time.
The TCG plugin keeps its counters in a file, which is read before and after a number of operations.
The difference between two numbers of operations gives the cost of one.
"""

from __future__ import annotations

import bisect
import mmap
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .. import mountstats, paths
from ..command import capture
from ..errors import GuestError
from ..pair import MOUNT_POINT, Guest, Pair

_ENTRY = struct.Struct("=QQQ")
#: A guest's clock counts its instructions, 8 ns each, so that the host's load does not change the
#: number of timer interrupts per operation. While the guest is idle it is the host's clock.
CLOCK = ("-icount", "shift=3,align=off,sleep=on")


@dataclass(frozen=True)
class Verb:
    """An operation of NFS, its size in bytes, and how often the two runs call it."""

    title: str
    name: str
    size: int
    few: int
    many: int

    def command(self, count: int) -> str:
        """Returns the command for the client that calls the operation."""
        size = f" {self.size}" if self.size else ""
        return f"python3 /lab/ops.py {self.name} {count} {MOUNT_POINT}/ops{size}"


#: The operations that are counted on the client.
VERBS = (
    Verb("READ", "read", 4096, 100, 600),
    Verb("WRITE", "write", 4096, 100, 600),
    Verb("GETATTR", "getattr", 0, 100, 600),
    Verb("READ 1 MiB", "read", 1 << 20, 5, 25),
    Verb("WRITE 1 MiB", "write", 1 << 20, 5, 25),
)


@dataclass(frozen=True)
class Cost:
    """Instructions per operation of the whole kernel and of rpcrdma.ko, by function."""

    total: float
    module: float
    functions: dict[str, float] = field(default_factory=dict)
    kernel: dict[str, float] = field(default_factory=dict)


class Functions:
    """The functions of one module, or of the whole kernel, by address."""

    def __init__(self, kallsyms: str, module: str = "") -> None:
        """`kallsyms`: the text of /proc/kallsyms. `module`: only the lines of that module count."""
        mark = f"[{module}]" if module else ""
        lines = [line.split() for line in kallsyms.splitlines() if mark in line]
        found = sorted((int(w[0], 16), w[2]) for w in lines if w[1] in "tTwW")
        self._starts = [address for address, _ in found]
        self._names = [name for _, name in found]

    def at(self, address: int) -> str:
        """Returns the function that contains `address`."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self._names[index] if index >= 0 else "?"


def build_plugin(name: str = "insncount") -> Path:
    """Compiles a plugin into the cache."""
    source = paths.LAB / f"plugin/{name}.c"
    target = paths.sub("tools") / f"{name}.so"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        capture(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", target, source])
    return target


class Counters:
    """The plugin's file, with sums by the address of the instructions."""

    def __init__(self, path: Path) -> None:
        """QEMU creates the file when it starts."""
        self._path = path

    def snapshot(self) -> tuple[Counter[int], Counter[int]]:
        """Returns the executed instructions, and the runs, of each block by its address."""
        instructions: Counter[int] = Counter()
        runs: Counter[int] = Counter()
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
            for address, count, times in _ENTRY.iter_unpack(memoryview(m)[:].tobytes()):
                if address == 0:
                    break
                instructions[address] += count
                runs[address] += times
        return instructions, runs

    def read(self) -> Counter[int]:
        """Returns the executed instructions of each block by its address."""
        return self.snapshot()[0]


def module_range(guest: Guest) -> tuple[int, int]:
    """Returns the addresses of rpcrdma.ko in the memory of a guest's kernel."""
    for line in guest.read("/proc/modules").splitlines():
        words = line.split()
        if words[0] == "rpcrdma":
            base = int(words[5], 16)
            return base, base + int(words[1])
    raise GuestError(f"the {guest.name} has no rpcrdma module")


def operations_of(pair: Pair, verb: str) -> int:
    """Returns how often the client has called an operation of NFS on its mount."""
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.operations(text, MOUNT_POINT).get(verb.upper(), 0)


def _run(
    pair: Pair, counters: Mapping[str, Counters], verb: Verb, count: int
) -> tuple[dict[str, Counter[int]], int]:
    """Runs operations; returns (instructions by guest and block, NFS operations)."""
    operations = operations_of(pair, verb.name)
    before = {guest: counter.read() for guest, counter in counters.items()}
    pair.client.sh(verb.command(count), timeout=300)
    spent = {guest: counter.read() - before[guest] for guest, counter in counters.items()}
    return spent, operations_of(pair, verb.name) - operations


def measure(pair: Pair, counters: Mapping[str, Counters], verb: Verb) -> dict[str, Cost]:
    """Returns the cost of one operation from a short and a long run after a warm-up.

    `counters` and the result are by guest, `client` or `server`.
    """
    _run(pair, counters, verb, verb.few)
    few, few_done = _run(pair, counters, verb, verb.few)
    many, many_done = _run(pair, counters, verb, verb.many)
    operations = many_done - few_done
    if not 0.9 < operations / (verb.many - verb.few) < 1.1:
        done = f"{operations} operations on the wire for {verb.many - verb.few}"
        raise GuestError(f"{verb.title}: {done}")
    for guest, spent in many.items():
        spent.subtract(few[guest])
    guests = {"client": pair.client, "server": pair.server}
    return {guest: _cost(guests[guest], spent, operations) for guest, spent in many.items()}


def _cost(guest: Guest, spent: Counter[int], operations: int) -> Cost:
    low, high = module_range(guest)
    inside = Counter({a: n for a, n in spent.items() if low <= a < high})
    symbols = guest.read("/proc/kallsyms")
    return Cost(
        spent.total() / operations,
        inside.total() / operations,
        by_function(inside, Functions(symbols, "rpcrdma"), operations),
        by_function(spent, Functions(symbols), operations),
    )


def by_function(inside: Counter[int], names: Functions, operations: int) -> dict[str, float]:
    """Returns the instructions per operation by function, the greatest number first."""
    sums: Counter[str] = Counter()
    for address, count in inside.items():
        sums[names.at(address)] += count
    return {name: count / operations for name, count in sums.most_common() if count}
