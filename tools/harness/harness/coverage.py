# SPDX-License-Identifier: GPL-2.0
"""Prints which blocks of the module the fuzzer's corpora reach, by room."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.command import capture
from lab.errors import LabError
from lab.progress import say

from . import build, fuzzing

#: Symbols of calls to which a block leads that the compiler has for a case that cannot occur, and
#: of those to which a block leads that no thread enters while no tracepoint is enabled.
_PANIC = re.compile(r"9panicking|unwrap_failed|expect_failed")
_TRACE = re.compile(r"rust_do_trace_")
#: The most instructions that are followed from a block.
_LONGEST_WAY = 60
#: The sections whose relocations use functions. Others describe them.
_USES = re.compile(r"\.rela\.(text|rodata|data|init|exit)")


@dataclass
class Function:
    """The blocks of one function."""

    name: str
    blocks: int = 0
    reached: int = 0


@dataclass
class Room:
    """The functions of one room, without what cannot be reached."""

    functions: list[Function] = field(default_factory=list)

    def blocks(self) -> int:
        """Returns the number of blocks."""
        return sum(f.blocks for f in self.functions)

    def share(self) -> float:
        """Returns the part of the blocks that was reached, in percent."""
        return 100 * sum(f.reached for f in self.functions) / max(1, self.blocks())


def uses(lines: Iterable[str]) -> frozenset[str]:
    """Returns the symbols that code and data use, by the output of ``readelf -rW``."""
    found: set[str] = set()
    section = ""
    for line in lines:
        if start := re.match(r"Relocation section '(\S+)'", line):
            section = start[1]
            continue
        words = line.split()
        if len(words) >= 5 and words[2].startswith("R_") and _USES.match(section):
            found.add(words[4])
    return frozenset(found)


@dataclass(frozen=True)
class Instruction:
    """A machine instruction: what it does, its operands, and the address of the next one."""

    name: str
    operands: str
    following: int

    def target(self) -> int:
        """Returns the address to which the instruction jumps."""
        return int(self.operands.split()[0], 16)


def instructions(lines: Iterable[str]) -> dict[int, Instruction]:
    """Returns the instructions by address, from the output of ``objdump -d --no-show-raw-insn``."""
    found: dict[int, Instruction] = {}
    last = 0
    for line in lines:
        if match := re.match(r"\s+([0-9a-f]+):\t(?:notrack )?(\S+)\s*(.*)", line):
            address = int(match[1], 16)
            if last:
                found[last] = replace(found[last], following=address)
            found[address] = Instruction(match[2], match[3], 0)
            last = address
    return found


def leads_to(code: dict[int, Instruction], address: int) -> str:
    """Returns the symbol of the call that a block leads to in any case, or nothing."""
    for _ in range(_LONGEST_WAY):
        step = code.get(address)
        if not step or step.name.startswith("ret"):
            return ""
        if step.name == "ud2":
            return "9panicking"
        if step.name.startswith("call"):
            return step.operands
        if step.name == "jmp" and re.match(r"[0-9a-f]+ ", step.operands):
            address = step.target()
        elif step.name.startswith("j"):
            return ""
        else:
            address = step.following
    return ""


def room_of(name: str) -> str:
    """Returns the room of a function by its path; `others` if it is of no room."""
    found = re.search(r"\brpcrdma(?:\[\w+\])?::(\w+)::", name)
    return found[1] if found else "others"


def visible(lines: Iterable[str]) -> frozenset[str]:
    """Returns the functions that other objects can call, by the output of ``readelf -sW``.

    The compiler keeps them even if nobody calls them.
    """
    found = (line.split() for line in lines)
    return frozenset(w[7] for w in found if len(w) == 8 and w[3] == "FUNC" and w[4] != "LOCAL")


@dataclass
class Sorted:
    """All blocks of the module, by what can be reached."""

    rooms: dict[str, Room]
    #: The numbers of blocks that only cases that cannot occur, or tracepoints, have; those of
    #: functions of which each call was inlined.
    panics: int = 0
    traces: int = 0
    uncalled: int = 0


def sort(
    blocks: Sequence[tuple[int, bool]],
    symbols: Sequence[tuple[int, str, str]],
    unused: Container[str],
    code: dict[int, Instruction],
) -> Sorted:
    """Sorts blocks: their addresses, and whether they were reached.

    `symbols`: the addresses of the program's functions, their symbols and their names.
    """
    result = Sorted(defaultdict(Room))
    functions: dict[int, Function] = {}
    starts = [address for address, _, _ in symbols]
    for address, reached in blocks:
        index = bisect.bisect_right(starts, address) - 1
        _, symbol, name = symbols[index]
        after = "" if reached else leads_to(code, address)
        if not reached and symbol in unused:
            result.uncalled += 1
        elif _PANIC.search(after):
            result.panics += 1
        elif _TRACE.search(after):
            result.traces += 1
        else:
            if index not in functions:
                functions[index] = Function(name)
                result.rooms[room_of(name)].functions.append(functions[index])
            functions[index].blocks += 1
            functions[index].reached += reached
    return result


def _symbols(path: Path) -> list[tuple[int, str, str]]:
    """Returns the program's functions: addresses, symbols and names, by address."""
    found = []
    plain = capture(["nm", "-n", "--defined-only", str(path)]).splitlines()
    named = capture(["nm", "-n", "-C", "--defined-only", str(path)]).splitlines()
    for line, readable in zip(plain, named, strict=True):
        address, kind, symbol = line.split(maxsplit=2)
        if kind in "tTwW":
            found.append((int(address, 16), symbol, readable.split(maxsplit=2)[2]))
    return found


def _blocks(program: build.Program, targets: Sequence[str]) -> list[tuple[int, bool]]:
    """Runs all inputs. Returns the blocks, and whether any input has reached them.

    # Errors
    `LabError` if an input fails.
    """
    reached: dict[int, bool] = defaultdict(bool)
    for target in targets:
        directories = [fuzzing.corpus(target), fuzzing.write_seeds(program, target)]
        for directory in directories:
            if not directory.exists():
                continue
            status, text = build.run(program, "cover", target, str(directory))
            if status:
                raise LabError(f"{target}: an input of the corpus fails\n{text[-500:]}")
            for line in text.splitlines():
                if found := re.fullmatch(r"(0x[0-9a-f]+) \d (\d)", line):
                    reached[int(found[1], 16)] |= found[2] == "1"
    return sorted(reached.items())


def show(program: build.Program, targets: Sequence[str]) -> None:
    """Prints the part of each room that the corpora reach, and the functions that none reaches."""
    used = uses(capture(["readelf", "-rW", str(program.module)]).splitlines())
    unused = visible(capture(["readelf", "-sW", str(program.module)]).splitlines()) - used
    objdump = ["objdump", "-d", "--no-show-raw-insn", str(program.path)]
    code = instructions(capture(objdump).splitlines())
    found = sort(_blocks(program, targets), _symbols(program.path), unused, code)
    say(f"{'room':<10} {'blocks':>7} {'reached':>8} {'functions':>10} {'reached':>8}")
    for name, room in sorted(found.rooms.items()):
        called = sum(1 for f in room.functions if f.reached)
        say(
            f"{name:<10} {room.blocks():>7} {room.share():>7.1f}% {len(room.functions):>10} "
            f"{called:>8}"
        )
    say(
        f"left out: {found.panics} blocks that only panic, {found.traces} of tracepoints, "
        f"{found.uncalled} of functions that are inlined wherever they are called"
    )
    say("functions that no input reaches, with their blocks:")
    for name, room in sorted(found.rooms.items()):
        for function in sorted(room.functions, key=lambda f: f.name):
            if not function.reached:
                say(f"  {name}: {function.name} ({function.blocks})")
