# SPDX-License-Identifier: GPL-2.0
"""Prints which part of the module the fuzzer's corpora reach, by room.

The unit is a place: the position in the source where a block of the program begins. The blocks of
all instances and inlined copies of a function have the same places.
"""

from __future__ import annotations

import bisect
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.command import capture
from lab.errors import LabError
from lab.progress import say

from . import build, fuzzing, unreached
from .unreached import Place

#: The functions that do not return, for cases that cannot occur.
_PANIC = re.compile(r"9panicking|unwrap_failed|expect_failed")
#: The sections whose relocations use functions. Others describe them.
_USES = re.compile(r"\.rela\.(text|rodata|data|init|exit)")
#: The path of a source file of the module; what comes before it is the directory of the build.
_TREE = re.compile(r"/module-fuzz/(rust/.+\.rs)$")


@dataclass
class Room:
    """The places of one room, and whether each was reached. Several blocks may have one place."""

    places: dict[Place, bool] = field(default_factory=dict)
    blocks: int = 0
    reached: int = 0

    def add(self, place: Place, *, reached: bool) -> None:
        """Adds a block."""
        self.places[place] = self.places.get(place, False) or reached
        self.blocks += 1
        self.reached += reached


def percent(part: int, whole: int) -> float:
    """Returns a part in percent."""
    return 100 * part / max(1, whole)


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


def following(code: dict[int, Instruction], address: int) -> list[int] | None:
    """Returns the addresses that may follow an instruction; None at the end of a function."""
    step = code[address]
    if step.name == "ud2" or (step.name.startswith("call") and _PANIC.search(step.operands)):
        return []
    if step.name.startswith("ret") or (step.name == "jmp" and "*" in step.operands):
        return None
    if step.name == "jmp":
        return [step.target()] if step.target() in code else None
    if step.name.startswith("j"):
        return [step.target(), step.following]
    return [step.following]


@dataclass(frozen=True)
class Ways:
    """The instructions to which there is a way from the entry of a function, and back from it."""

    entered: set[int]
    returning: set[int]


def ways(code: dict[int, Instruction], entries: Iterable[int]) -> Ways:
    """Follows all jumps. A tracepoint that is off has no jump to its code."""
    before: dict[int, list[int]] = defaultdict(list)
    ends: list[int] = []
    entered: set[int] = set()
    left = [address for address in entries if address in code]
    while left:
        address = left.pop()
        if address in entered or address not in code:
            continue
        entered.add(address)
        after = following(code, address)
        if after is None:
            ends.append(address)
        for target in after or []:
            before[target].append(address)
            left.append(target)
    returning: set[int] = set()
    while ends:
        address = ends.pop()
        if address not in returning:
            returning.add(address)
            ends.extend(before[address])
    return Ways(entered, returning)


def room_of(file: str) -> str:
    """Returns the room of a source file by its path."""
    return file.split("/")[1].removesuffix(".rs")


def place_of(frames: Iterable[dict[str, Any]]) -> Place | None:
    """Returns the innermost place in the tree, from what llvm-symbolizer says of an address.

    None: all code there is that of libraries, or the compiler has made it.
    """
    for frame in frames:
        found = _TREE.search(frame["FileName"])
        if found and frame["Line"]:
            return Place(found[1], frame["Line"], frame["Column"])
    return None


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
    #: functions of which each call was inlined; those of libraries and of the compiler.
    panics: int = 0
    traces: int = 0
    uncalled: int = 0
    foreign: int = 0


def sort(
    blocks: Sequence[tuple[int, bool]],
    symbols: Sequence[tuple[int, str, str]],
    unused: Container[str],
    open_ways: Ways,
    places: Mapping[int, Place],
) -> Sorted:
    """Sorts blocks: their addresses, and whether they were reached.

    `symbols`: the addresses of the program's functions, their symbols and their names.
    """
    result = Sorted(defaultdict(Room))
    starts = [address for address, _, _ in symbols]
    for address, reached in blocks:
        symbol = symbols[bisect.bisect_right(starts, address) - 1][1]
        if not reached and symbol in unused:
            result.uncalled += 1
        elif not reached and address not in open_ways.entered:
            result.traces += 1
        elif not reached and address not in open_ways.returning:
            result.panics += 1
        elif address not in places:
            result.foreign += 1
        else:
            place = places[address]
            result.rooms[room_of(place.file)].add(place, reached=reached)
    return result


def _places(path: Path, symbolizer: str, blocks: Sequence[tuple[int, bool]]) -> dict[int, Place]:
    """Returns the place of each block that has one."""
    command = [symbolizer, "-e", str(path), "--output-style=JSON"]
    addresses = "".join(f"{address:#x}\n" for address, _ in blocks)
    done = subprocess.run(command, input=addresses, capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        if place := place_of(answer["Symbol"]):
            found[int(answer["Address"], 16)] = place
    return found


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


def _table(rooms: Mapping[str, Room], known: Container[Place]) -> None:
    """Prints a line for each room. Places with a reason do not count."""
    say(f"{'room':<10} {'places':>7} {'reached':>8} {'blocks':>7} {'reached':>8} {'listed':>7}")
    for name, room in sorted(rooms.items()):
        open_places = [place for place in room.places if place not in known]
        reached = sum(room.places[place] for place in open_places)
        say(
            f"{name:<10} {len(open_places):>7} {percent(reached, len(open_places)):>7.1f}% "
            f"{room.blocks:>7} {percent(room.reached, room.blocks):>7.1f}% "
            f"{len(room.places) - len(open_places):>7}"
        )


def show(program: build.Program, symbolizer: str, targets: Sequence[str]) -> bool:
    """Prints the part of each room that the corpora reach, and all places that none reaches.

    Returns whether the list of what is never reached is right.
    """
    used = uses(capture(["readelf", "-rW", str(program.module)]).splitlines())
    unused = visible(capture(["readelf", "-sW", str(program.module)]).splitlines()) - used
    objdump = ["objdump", "-d", "--no-show-raw-insn", str(program.path)]
    code = instructions(capture(objdump).splitlines())
    symbols = _symbols(program.path)
    open_ways = ways(code, (address for address, _, _ in symbols))
    blocks = _blocks(program, targets)
    places = _places(program.path, symbolizer, blocks)
    found = sort(blocks, symbols, unused, open_ways, places)
    reached = {p: yes for room in found.rooms.values() for p, yes in room.places.items()}
    listed = unreached.match(unreached.entries(), unreached.Sources(), reached)
    _table(found.rooms, listed.known)
    say(
        f"left out: {found.panics} blocks that only panic, {found.traces} of tracepoints, "
        f"{found.uncalled} of functions that are inlined wherever they are called, "
        f"{found.foreign} of libraries and of the compiler"
    )
    say("places that no input reaches:")
    for line in unreached.lines(
        p for p, yes in reached.items() if not yes and p not in listed.known
    ):
        say(f"  {line}")
    for entry in listed.stale:
        say(f"FAIL {unreached.FILE.name}: {entry} is reached, or is not there")
    return not listed.stale
