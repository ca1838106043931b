# SPDX-License-Identifier: GPL-2.0
"""Compares the stack frames of the module's functions with the kernel's limit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .command import capture
from .progress import say

#: The limit in bytes that the kernel's C code has on 64-bit machines (``CONFIG_FRAME_WARN``). The
#: kernel's Makefile passes it to the C compiler, and rustc has no such warning.
LIMIT = 2048
#: The limit in bytes for functions of KUnit suites: half the stack of the thread that calls them.
TESTS_LIMIT = 8192
#: The size of the return address, and of a register that is pushed.
_WORD = 8
_FUNCTION = re.compile(r"[0-9a-f]+ <(.*)>:$")
_RESERVE = re.compile(r"\b(?:sub +\$0x([0-9a-f]+)|add +\$0xf{8}([0-9a-f]{8})),%rsp$")
_PUSH = re.compile(r"\bpush +%")
#: A step of a prologue for arm64: a subtraction, or a store that moves the stack pointer.
_STEP = re.compile(r"\bsub\s+sp, sp, #0x([0-9a-f]+)(, lsl #12)?$|\[sp, #-(\d+)\]!$")


def sizes(lines: Iterable[str]) -> dict[str, int]:
    """Returns the frames' sizes in bytes by function, from the output of ``objdump -d``.

    A frame is what the function reserves in one step, and the registers that it pushed until then;
    for arm64 the sum of all steps.
    """
    found: dict[str, int] = {}
    name, pushed = "", 0
    for line in lines:
        if start := _FUNCTION.match(line):
            name, pushed = start.group(1), _WORD
        elif _PUSH.search(line):
            pushed += _WORD
        elif reserve := _RESERVE.search(line):
            below = reserve.group(1)
            size = int(below, 16) if below else (1 << 32) - int(reserve.group(2), 16)
            found[name] = max(found.get(name, 0), size + pushed)
        elif step := _STEP.search(line):
            pages, stored = 12 if step.group(2) else 0, step.group(3)
            size = int(stored) if stored else int(step.group(1), 16) << pages
            found[name] = found.get(name, 0) + size
    return found


def of(path: Path, objdump: str = "objdump") -> dict[str, int]:
    """Returns the frames' sizes in bytes by function of an object file for x86-64 or arm64."""
    command = [objdump, "-d", "-C", "--no-show-raw-insn", str(path)]
    return sizes(capture(command).splitlines())


def check(frames: dict[str, int], limit: int = LIMIT) -> bool:
    """Prints the functions whose frames exceed the limit. Returns whether there are none."""
    ordered = sorted(frames.items(), key=lambda frame: -frame[1])
    if not ordered:
        say("FAIL frames: the module has no function with a stack frame")
        return False
    large = [(name, size) for name, size in ordered if size > limit]
    for name, size in large:
        say(f"FAIL frame of {size} bytes, {limit} are allowed: {name}")
    name, size = ordered[0]
    say(f"frames: {len(ordered)} functions, {len(large)} too large; {size} bytes: {name}")
    return not large
