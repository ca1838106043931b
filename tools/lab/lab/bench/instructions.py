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
from dataclasses import dataclass, field
from pathlib import Path

from .. import mountstats, paths
from ..command import capture
from ..errors import GuestError
from ..pair import MOUNT_POINT, Guest, Pair

VERBS = ("read", "write", "getattr")
_ENTRY = struct.Struct("=QQQ")
#: The numbers of operations of the two runs.
FEW, MANY = 200, 1000


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


def build_plugin() -> Path:
    """Compiles the plugin into the cache."""
    source = paths.LAB / "plugin/insncount.c"
    target = paths.sub("tools") / "insncount.so"
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


def _run(pair: Pair, counters: Counters, verb: str, count: int) -> tuple[Counter[int], int]:
    """Runs operations; returns (instructions by block, NFS operations)."""
    operations = operations_of(pair, verb)
    before = counters.read()
    pair.client.sh(f"python3 /lab/ops.py {verb} {count} {MOUNT_POINT}/ops", timeout=300)
    after = counters.read()
    return after - before, operations_of(pair, verb) - operations


def measure(pair: Pair, counters: Counters, verb: str) -> Cost:
    """Returns the cost of one operation from a short and a long run after a warm-up."""
    _run(pair, counters, verb, FEW)
    few, few_done = _run(pair, counters, verb, FEW)
    many, many_done = _run(pair, counters, verb, MANY)
    operations = many_done - few_done
    if not 0.9 < operations / (MANY - FEW) < 1.1:
        raise GuestError(f"{verb}: {operations} operations on the wire for {MANY - FEW}")
    many.subtract(few)
    low, high = module_range(pair.client)
    inside = Counter({a: n for a, n in many.items() if low <= a < high})
    symbols = pair.client.read("/proc/kallsyms")
    return Cost(
        many.total() / operations,
        inside.total() / operations,
        by_function(inside, Functions(symbols, "rpcrdma"), operations),
        by_function(many, Functions(symbols), operations),
    )


def by_function(inside: Counter[int], names: Functions, operations: int) -> dict[str, float]:
    """Returns the instructions per operation by function, the greatest number first."""
    sums: Counter[str] = Counter()
    for address, count in inside.items():
        sums[names.at(address)] += count
    return {name: count / operations for name, count in sums.most_common() if count}
