# SPDX-License-Identifier: GPL-2.0
"""gdb's command file, and QEMU's arguments for the stub."""

from __future__ import annotations

import dataclasses
import os
import pty
import socket
import sys
import threading
from pathlib import Path

import pytest

from lab import gdb, terminal
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


def _guest_terminal(path: Path, heard: list[bytes]) -> threading.Thread:
    """Plays a guest's terminal for one connection, and keeps what it hears."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        connection, _ = server.accept()
        with server, connection:
            connection.sendall(b"# ")
            while data := connection.recv(4096):
                heard.append(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("key", [terminal.LEAVE, terminal.OTHER])
def test_keys_that_end_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes) -> None:
    heard: list[bytes] = []
    thread = _guest_terminal(tmp_path / "tty", heard)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        threading.Timer(0.2, os.write, (ours, b"ls\n")).start()
        threading.Timer(0.6, os.write, (ours, key)).start()
        assert terminal._join(tmp_path / "tty", "cd /mnt/nfs") == key
    os.close(ours)
    thread.join(10)
    assert b"".join(heard) == b"cd /mnt/nfs\nls\n"
