# SPDX-License-Identifier: GPL-2.0
"""Measures the cost of one kind of RPC with callgrind, by owner of the code.

Callgrind counts each instruction between the calls of `u_count_begin` and `u_count_end`. The
address of an instruction gives its function, and the function gives the owner: module, helper or
neither.
"""

from __future__ import annotations

import bisect
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lab.command import capture
from lab.errors import LabError

from .build import Program, symbols

#: Functions that take a lock. The functions that release one are not counted.
_LOCK = re.compile(r"^_raw_(spin|read|write)_lock|^mutex_lock$")
_ALLOCATION = re.compile(r"^(__kmalloc|kmem_cache_alloc|krealloc|kvrealloc|__kvmalloc|alloc_pages)")
#: Functions by which the C module encodes and decodes headers, and keeps its free lists.
_AIDE = re.compile(r"^(xdr_|llist_|read_bytes_from_xdr_buf|write_bytes_to_xdr_buf)")
_ATOMIC = re.compile(r"^\s*([0-9a-f]+):\s+(lock |xchg .*\()")


@dataclass
class Cost:
    """The counts of all repetitions together."""

    module: int = 0
    helpers: int = 0
    aides: int = 0
    locks: int = 0
    atomics: int = 0
    allocations: int = 0
    functions: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Function:
    """A function and its owner."""

    name: str
    #: The module defines the function.
    ours: bool
    #: A helper that only the module calls.
    helper: bool


class Image:
    """A program's functions, with addresses and owners."""

    def __init__(self, program: Program) -> None:
        """Reads the program's symbol table and its instructions."""
        self.program = program
        module = symbols(program.module, "--defined-only")
        helpers = set[str]().union(*(symbols(p, "--defined-only") for p in program.helpers))
        self._starts: list[int] = []
        self._functions: list[Function] = []
        seen: set[str] = set()
        for line in capture(["nm", "-n", "--defined-only", str(program.path)]).splitlines():
            address, kind, name = line.split()
            if kind not in "tTwW":
                continue
            # The module is linked first: a second function of the same name belongs to the kernel.
            self._starts.append(int(address, 16))
            ours = name in module and name not in seen
            self._functions.append(Function(name, ours, name in helpers))
            seen.add(name)
        self.atomics = self._find_atomics()

    def _find_atomics(self) -> frozenset[int]:
        """Returns the addresses of atomic read-modify-write instructions."""
        text = capture(["objdump", "-d", "--no-show-raw-insn", str(self.program.path)])
        found = (_ATOMIC.match(line) for line in text.splitlines())
        return frozenset(int(match.group(1), 16) for match in found if match)

    def at(self, address: int) -> Function:
        """Returns the function at an address."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self._functions[index] if index >= 0 else Function("?", False, False)


def _position(text: str, last: int) -> int:
    """Parses an address in a dump, which may be relative to the last one."""
    if text == "*":
        return last
    if text[0] in "+-":
        return last + int(text, 0)
    return int(text, 0)


def _charge(cost: Cost, image: Image, address: int, count: int) -> None:
    """Adds the executions of one instruction."""
    function = image.at(address)
    if function.ours:
        cost.module += count
    elif function.helper:
        cost.helpers += count
    else:
        return
    if address in image.atomics:
        cost.atomics += count
    cost.functions[function.name] += count


def _charge_call(cost: Cost, image: Image, ends: tuple[int, int], calls: tuple[int, int]) -> None:
    """Adds the calls from one address to another: their number, and their instructions."""
    function, target = image.at(ends[0]), image.at(ends[1]).name
    count, spent = calls
    if not function.ours and not function.helper:
        return
    if _LOCK.match(target):
        cost.locks += count
    elif _ALLOCATION.match(target):
        cost.allocations += count
    elif _AIDE.match(target):
        cost.aides += spent
        cost.functions[target] += spent


def parse(text: str, image: Image) -> Cost:
    """Parses a dump that has the addresses of instructions."""
    cost = Cost()
    last, call = 0, None
    for line in text.splitlines():
        if line.startswith("calls="):
            count, target = line[6:].split()[:2]
            call = (int(count), _position(target, last))
            continue
        if not line or line[0] not in "0123456789+-*":
            continue
        position, _, spent = line.split()
        last = _position(position, last)
        if call:
            _charge_call(cost, image, (last, call[1]), (call[0], int(spent)))
            call = None
        else:
            _charge(cost, image, last, int(spent))
    return cost


def measure(image: Image, kind: str, count: int) -> Cost:
    """Runs `count` RPCs of one kind under callgrind."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "out"
        command = ["valgrind", "--tool=callgrind", "--dump-instr=yes"]
        command += ["--zero-before=u_count_begin", "--dump-before=u_count_end"]
        command += [f"--callgrind-out-file={out}", str(image.program.path)]
        command += ["bench", kind, str(count)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        except FileNotFoundError as error:
            raise LabError("no valgrind; run tools/lab/bootstrap") from error
        dump = out.with_name("out.1")
        if done.returncode or not dump.exists():
            raise LabError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")
        return parse(dump.read_text(), image)
