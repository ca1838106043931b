# SPDX-License-Identifier: GPL-2.0
"""Counts the client kernel's instructions per NFS operation.

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
from ..pair import MOUNT_POINT, Pair

VERBS = ("read", "write", "getattr")
_ENTRY = struct.Struct("=QQ")
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

    def read(self) -> Counter[int]:
        """Returns the numbers of executed instructions by the address of their block."""
        counts: Counter[int] = Counter()
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
            for address, count in _ENTRY.iter_unpack(memoryview(m)[:].tobytes()):
                if address == 0:
                    break
                counts[address] += count
        return counts


def module_range(pair: Pair) -> tuple[int, int]:
    """Returns the addresses of rpcrdma.ko in the memory of the client's kernel."""
    for line in pair.client.read("/proc/modules").splitlines():
        words = line.split()
        if words[0] == "rpcrdma":
            base = int(words[5], 16)
            return base, base + int(words[1])
    raise GuestError("the client has no rpcrdma module")


def _operations(pair: Pair, verb: str) -> int:
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.operations(text, MOUNT_POINT).get(verb.upper(), 0)


def _run(pair: Pair, counters: Counters, verb: str, count: int) -> tuple[Counter[int], int]:
    """Runs operations; returns (instructions by block, NFS operations)."""
    operations = _operations(pair, verb)
    before = counters.read()
    pair.client.sh(f"python3 /lab/ops.py {verb} {count} {MOUNT_POINT}/ops", timeout=300)
    after = counters.read()
    return after - before, _operations(pair, verb) - operations


def measure(pair: Pair, counters: Counters, verb: str) -> Cost:
    """Returns the cost of one operation from a short and a long run after a warm-up."""
    _run(pair, counters, verb, FEW)
    few, few_done = _run(pair, counters, verb, FEW)
    many, many_done = _run(pair, counters, verb, MANY)
    operations = many_done - few_done
    if not 0.9 < operations / (MANY - FEW) < 1.1:
        raise GuestError(f"{verb}: {operations} operations on the wire for {MANY - FEW}")
    many.subtract(few)
    low, high = module_range(pair)
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
