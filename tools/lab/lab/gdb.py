# SPDX-License-Identifier: GPL-2.0
"""gdb for a guest's kernel: QEMU's stub, and a command file with all symbols.

The command file loads the kernel's symbols, connects to the stub, and adds the symbols of the
module at the addresses at which the guest has loaded it. Those addresses change with each load, so
`write` is called after each of them.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .progress import say

if TYPE_CHECKING:
    from .pair import Guest, Pair

#: Sections that hold code and data while the module is loaded.
_LASTING = re.compile(r"\.(text|noinstr\.text|data|rodata|bss|exit\.text)\b")
_SECTIONS = (
    "cd /sys/module/rpcrdma/sections && for name in .[a-z]*; do echo $name $(cat $name); done"
)


def sections(text: str) -> dict[str, int]:
    """Returns the addresses of the lasting sections from lines of name and address.

    # Errors
    `ValueError` when the module has no section `.text`.
    """
    found = {}
    for line in text.splitlines():
        name, _, address = line.partition(" ")
        if _LASTING.match(name):
            found[name] = int(address, 16)
    if not found.get(".text"):
        raise ValueError("the guest shows no address of the module's .text")
    return found


def commands(vmlinux: Path, stub: Path, module: Path, places: dict[str, int]) -> str:
    """Returns the text of a command file."""
    rest = "".join(
        f" -s {name} {address:#x}" for name, address in places.items() if name != ".text"
    )
    return "\n".join(
        (
            "set confirm off",
            f"file {vmlinux}",
            f"target remote {stub}",
            f"add-symbol-file {module} {places['.text']:#x}{rest}",
            "",
        )
    )


def write(guest: Guest, vmlinux: Path, module: Path) -> Path:
    """Writes the command file of a guest with the module loaded; returns its place.

    Says how to call gdb the first time.
    """
    spec = guest.vm.spec
    target = spec.directory / f"{guest.name}.gdb"
    known = target.exists()
    places = sections(guest.sh(_SECTIONS))
    target.write_text(commands(vmlinux, spec.socket("gdb"), module, places))
    if not known:
        say(f"gdb for the {guest.name}: gdb -x {target}")
    return target


def await_attached(pair: Pair) -> None:
    """Waits until gdb is connected to the client's stub: then breakpoints can be set in time."""
    if not pair.client.vm.has_gdb():
        say("waiting until gdb is connected to the client; give it `continue` to go on")
    while not pair.client.vm.has_gdb():
        time.sleep(0.2)
