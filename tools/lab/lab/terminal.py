# SPDX-License-Identifier: GPL-2.0
"""The guests' terminals in the terminal of the user."""

from __future__ import annotations

import os
import select
import shutil
import socket
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .pair import MOUNT_POINT, Pair
from .progress import say

#: Ctrl-] leaves the shell, Ctrl-\ goes to the other guest.
LEAVE, OTHER = b"\x1d", b"\x1c"
#: Seconds of silence after which a shell whose input came from a pipe ends.
_QUIET = 3.0
_PLACES = {"client": MOUNT_POINT, "server": "/srv/export"}


def talk(pair: Pair, on: str, *, inside: bool) -> None:
    """Runs a shell on the guest named `on`, and on the other guest, until the user leaves.

    `inside`: the shell begins in the mount or the export. A shell in a mount whose server is dead
    hangs, so this is not for the guests of a failed scenario.
    """
    guests = {"client": pair.client, "server": pair.server}
    while on:
        say(f"shell on the {on}; Ctrl-] leaves, Ctrl-\\ goes to the other guest")
        size = shutil.get_terminal_size()
        place = f"cd {_PLACES[on]}; " if inside else ""
        greeting = f"stty rows {size.lines} cols {size.columns}; {place}clear"
        ended = _join(guests[on].vm.spec.socket("tty"), greeting)
        on = next(name for name in guests if name != on) if ended == OTHER else ""


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Passes every key through inside the block. A pipe needs no preparation."""
    if not sys.stdin.isatty():
        yield
        return
    saved = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
        print()


def _join(path: Path, greeting: str) -> bytes:
    """Copies bytes between the user's terminal and the guest's; returns the key that ended it."""
    with socket.socket(socket.AF_UNIX) as line, _raw_terminal():
        line.connect(str(path))
        line.sendall(greeting.encode() + b"\n")
        inputs: list[object] = [line, sys.stdin]
        while True:
            # The input from a pipe may end long before the guest has answered.
            ready, _, _ = select.select(inputs, [], [], None if sys.stdin in inputs else _QUIET)
            if not ready:
                return LEAVE
            if line in ready:
                data = line.recv(4096)
                if not data:
                    return LEAVE
                os.write(sys.stdout.fileno(), data)
            if sys.stdin in ready:
                data = os.read(sys.stdin.fileno(), 4096)
                for key in (LEAVE, OTHER):
                    if key in data:
                        return key
                if not data and sys.stdin.isatty():
                    return LEAVE
                if not data:
                    inputs.remove(sys.stdin)
                line.sendall(data)
