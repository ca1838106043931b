# SPDX-License-Identifier: GPL-2.0
"""Counting the client kernel's instructions per NFS operation.

Wall clock in an emulator says little; instructions executed say the same thing
every time. The TCG plugin keeps the counters in a file; reading it before and
after a number of operations, and again with twice the number, leaves the cost
of one operation by difference.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from . import mountstats, paths
from .command import capture
from .errors import GuestError
from .pair import MOUNT_POINT, Pair

VERBS = ("read", "write", "getattr")
_ENTRY = struct.Struct("=QQ")
#: Operations of the smaller and of the larger run.
FEW, MANY = 200, 1000


@dataclass(frozen=True)
class Cost:
    """Instructions per operation: of the whole kernel, and inside rpcrdma.ko."""

    total: float
    module: float


def build_plugin() -> Path:
    """Compile the plugin into the cache."""
    source = paths.LAB / "plugin/insncount.c"
    target = paths.sub("tools") / "insncount.so"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        capture(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", target, source])
    return target


class Counters:
    """The plugin's file, summed by where the instructions lie."""

    def __init__(self, path: Path) -> None:
        """The file exists as soon as QEMU runs."""
        self._path = path

    def read(self, low: int, high: int) -> tuple[int, int]:
        """(all instructions so far, those with low <= address < high)."""
        total = inside = 0
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
            for address, count in _ENTRY.iter_unpack(memoryview(m)[:].tobytes()):
                if address == 0:
                    break
                total += count
                if low <= address < high:
                    inside += count
        return total, inside


def module_range(pair: Pair) -> tuple[int, int]:
    """Where the client's rpcrdma.ko lies in its kernel's memory."""
    for line in pair.client.read("/proc/modules").splitlines():
        words = line.split()
        if words[0] == "rpcrdma":
            base = int(words[5], 16)
            return base, base + int(words[1])
    raise GuestError("the client has no rpcrdma module")


def _operations(pair: Pair, verb: str) -> int:
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.operations(text, MOUNT_POINT).get(verb.upper(), 0)


def _run(pair: Pair, counters: Counters, verb: str, count: int) -> tuple[int, int, int]:
    """(instructions, of which in the module, NFS operations) of one run."""
    low, high = module_range(pair)
    operations = _operations(pair, verb)
    before = counters.read(low, high)
    pair.client.sh(f"python3 /lab/ops.py {verb} {count} {MOUNT_POINT}/ops", timeout=300)
    after = counters.read(low, high)
    done = _operations(pair, verb) - operations
    return after[0] - before[0], after[1] - before[1], done


def measure(pair: Pair, counters: Counters, verb: str) -> Cost:
    """The cost of one operation, from a short and a long run after a warm-up."""
    _run(pair, counters, verb, FEW)
    few = _run(pair, counters, verb, FEW)
    many = _run(pair, counters, verb, MANY)
    operations = many[2] - few[2]
    if not 0.9 < operations / (MANY - FEW) < 1.1:
        raise GuestError(f"{verb}: {operations} operations on the wire for {MANY - FEW}")
    return Cost((many[0] - few[0]) / operations, (many[1] - few[1]) / operations)
