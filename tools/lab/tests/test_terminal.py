# SPDX-License-Identifier: GPL-2.0
"""The keys that end a shell on a guest."""

from __future__ import annotations

import os
import pty
import socket
import sys
import threading
from pathlib import Path

import pytest

from lab import terminal


def _guest_terminal(path: Path, heard: list[bytes]) -> threading.Thread:
    """Plays a guest's terminal for one connection, and keeps its input."""
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
