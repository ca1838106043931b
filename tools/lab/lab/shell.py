# SPDX-License-Identifier: GPL-2.0
"""`make shell`: an interactive shell on a client with the mount in place."""

from __future__ import annotations

import argparse
import os
import select
import shutil
import socket
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import demo, settings
from .progress import say

_ESCAPE = b"\x1d"  # Ctrl-]


def main(arguments: Sequence[str]) -> int:
    """``lab shell``."""
    argparse.ArgumentParser(prog="lab shell", description=__doc__).parse_args(arguments)
    built, client_module = demo.prepare(settings.client(), settings.flavour())
    with demo.boot(built, client_module, "shell") as pair:
        say(f"server's console: {pair.server.vm.spec.console}")
        say("shell on the client, mount at /mnt/nfs; leave with Ctrl-] (or end of input)")
        size = shutil.get_terminal_size()
        _talk(pair.client.vm.spec.socket("tty"), f"stty rows {size.lines} cols {size.columns}")
    return 0


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass every key through while inside; a pipe needs nothing of the kind."""
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


def _talk(path: Path, greeting: str) -> None:
    """Copy bytes between our terminal and the guest's until the user leaves."""
    with socket.socket(socket.AF_UNIX) as line, _raw_terminal():
        line.connect(str(path))
        line.sendall(greeting.encode() + b"; cd /mnt/nfs; clear\n")
        inputs: list[object] = [line, sys.stdin]
        while True:
            # Without a terminal, input may end long before the guest has answered.
            ready, _, _ = select.select(inputs, [], [], None if sys.stdin in inputs else 3.0)
            if not ready:
                return
            if line in ready:
                data = line.recv(4096)
                if not data:
                    return
                os.write(sys.stdout.fileno(), data)
            if sys.stdin in ready:
                data = os.read(sys.stdin.fileno(), 4096)
                if _ESCAPE in data or (not data and sys.stdin.isatty()):
                    return
                if not data:
                    inputs.remove(sys.stdin)
                line.sendall(data)
