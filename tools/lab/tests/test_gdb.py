# SPDX-License-Identifier: GPL-2.0
"""gdb's command file, and QEMU's arguments for the stub."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lab import gdb
from lab.vm import Spec, command_line

SECTIONS = """\
.bss 0xffffffffc0009000
.data 0xffffffffc0008000
.init.text 0xffffffffc0020000
.note.Linux 0xffffffffc0007000
.rodata.str1.1 0xffffffffc0007100
.strtab 0xffffffffc0030000
.text 0xffffffffc0000000
"""
SPEC = Spec(
    name="client",
    address="10.0.0.2",
    kernel=Path("k"),
    image=Path("i"),
    payload=Path("p"),
    directory=Path("logs"),
    sockets=Path("sockets"),
    link_end="server=off",
)


def test_sections() -> None:
    """The result has no section that the kernel frees, and none without code or data."""
    assert list(gdb.sections(SECTIONS)) == [".bss", ".data", ".rodata.str1.1", ".text"]
    with pytest.raises(ValueError, match="text"):
        gdb.sections(".data 0xffffffffc0008000\n")


def test_an_address_that_is_hidden_is_no_address() -> None:
    with pytest.raises(ValueError, match="text"):
        gdb.sections(".text 0x0000000000000000\n")


def test_commands() -> None:
    places = {".data": 0x8000, ".text": 0x1000}
    text = gdb.commands(Path("b/vmlinux"), Path("s/gdb.sock"), Path("m/rpcrdma.ko"), places)
    assert text.splitlines()[-3:] == [
        "file b/vmlinux",
        "target remote s/gdb.sock",
        "add-symbol-file m/rpcrdma.ko 0x1000 -s .data 0x8000",
    ]


def test_stub_on_request_only() -> None:
    with_stub = " ".join(command_line(dataclasses.replace(SPEC, gdb=True)))
    assert "path=sockets/client-gdb.sock,server=on,wait=off -gdb chardev:gdb" in with_stub
    assert "nokaslr" in with_stub
    without = " ".join(command_line(SPEC))
    assert "gdb" not in without
    assert "nokaslr" not in without
