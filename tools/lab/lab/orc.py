# SPDX-License-Identifier: GPL-2.0
"""Unwinds stacks of an x86-64 kernel by the ORC tables in the files of kernel and modules."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

#: The layout of an entry, and its values: `arch/x86/include/asm/orc_types.h`.
_ENTRY = struct.Struct("<hhH")
_SP, _BP, _PREVIOUS_SP = 3, 4, 8
_CALL = 2
_WORD = 8


class Elf:
    """The sections of an ELF file of x86-64."""

    def __init__(self, data: bytes) -> None:
        """Reads the table of the sections."""
        self._data = data
        (start,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        self._headers = [
            struct.unpack_from("<IIQQQQIIQQ", data, start + size * n) for n in range(count)
        ]
        text = self.bytes_of(names)
        #: The names of the sections by their numbers.
        self.names = [
            text[header[0] : text.index(b"\0", header[0])].decode() for header in self._headers
        ]

    def bytes_of(self, number: int) -> bytes:
        """Returns the contents of a section."""
        _, _, _, _, offset, size, *_ = self._headers[number]
        return self._data[offset : offset + size]

    def address_of(self, number: int) -> int:
        """Returns the address of a section."""
        return self._headers[number][3]

    def find(self, name: str) -> int:
        """Returns the number of a section.

        # Errors
        `LabError` if there is none.
        """
        if name not in self.names:
            raise LabError(f"no section {name}")
        return self.names.index(name)


@dataclass(frozen=True)
class Stack:
    """A stack at the entry of a function: the registers, and the words from the top on."""

    sp: int
    bp: int
    words: tuple[int, ...]

    def at(self, address: int) -> int | None:
        """Returns the word at an address; None if the words do not reach it."""
        index, odd = divmod(address - self.sp, _WORD)
        return self.words[index] if not odd and 0 <= index < len(self.words) else None


def of_kernel(vmlinux: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the address and the ORC entry of each place in the kernel's code."""
    elf = Elf(vmlinux)
    number = elf.find(".orc_unwind_ip")
    places, base = elf.bytes_of(number), elf.address_of(number)
    entries = elf.bytes_of(elf.find(".orc_unwind"))
    for n, (offset,) in enumerate(struct.iter_unpack("<i", places)):
        yield base + 4 * n + offset, entries[6 * n : 6 * n + 6]


def of_module(module: bytes, sections: Mapping[str, int]) -> Iterator[tuple[int, bytes]]:
    """Yields the same for a module, whose sections are loaded at these addresses."""
    elf = Elf(module)
    entries = elf.bytes_of(elf.find(".orc_unwind"))
    symbols = elf.bytes_of(elf.find(".symtab"))
    for place, info, addend in struct.iter_unpack(
        "<QQq", elf.bytes_of(elf.find(".rela.orc_unwind_ip"))
    ):
        _, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", symbols, 24 * (info >> 32))
        base = sections.get(elf.names[section])
        if base is not None:
            n = place // 4
            yield base + value + addend, entries[6 * n : 6 * n + 6]


class Unwinder:
    """The ORC tables of a kernel and its modules."""

    def __init__(self, places: Iterable[tuple[int, bytes]]) -> None:
        """Sorts the places."""
        found = sorted(places)
        self._places = [place for place, _ in found]
        self._entries = [entry for _, entry in found]

    def callers(self, stack: Stack) -> list[int]:
        """Returns the return addresses, the innermost first.

        They end where the words end, and where an interrupt has begun or has changed the stack.
        """
        found: list[int] = []
        ip, sp, bp = stack.at(stack.sp), stack.sp + _WORD, stack.bp
        while ip is not None:
            found.append(ip)
            index = bisect.bisect_right(self._places, ip - 1) - 1
            if index < 0:
                break
            sp_offset, bp_offset, bits = _ENTRY.unpack(self._entries[index])
            sp_register, bp_register, kind = bits & 15, bits >> 4 & 15, bits >> 8 & 7
            if kind != _CALL or sp_register not in (_SP, _BP):
                break
            previous = (sp if sp_register == _SP else bp) + sp_offset
            if bp_register in (_PREVIOUS_SP, _BP):
                base = previous if bp_register == _PREVIOUS_SP else bp
                bp = stack.at(base + bp_offset) or 0
            ip, sp = stack.at(previous - _WORD), previous
        return found


def of_files(
    vmlinux: Path, modules: Iterable[tuple[Path, Mapping[str, int]]]
) -> Iterator[tuple[int, bytes]]:
    """Yields the places of a kernel and of modules with the addresses of their sections."""
    yield from of_kernel(vmlinux.read_bytes())
    for path, sections in modules:
        yield from of_module(path.read_bytes(), sections)
