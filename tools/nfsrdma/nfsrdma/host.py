# SPDX-License-Identifier: GPL-2.0
"""The machine as the command reads it: files, directories, the output of other programs.

Everything goes through `Host`, so that tests give the command a machine that does not exist.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .ucm import Answer, ask

#: The status of a program that is not installed.
MISSING = 127

#: Where programs are that the PATH of other users than root may lack.
ADMINISTRATION = "/usr/sbin:/sbin"

#: The longest time that another program may take, in seconds.
PATIENCE = 10

#: Seconds until a TCP connection counts as dropped: the first packet is repeated once.
_TCP_PATIENCE = 2.5


@dataclass(frozen=True)
class Ran:
    """How a program ended."""

    status: int
    out: str


class Host:
    """The machine that the command runs on."""

    def read(self, path: str) -> str | None:
        """Returns the text of a file; None if it does not exist or cannot be read."""
        try:
            # In text mode Python would take each carriage return for the end of a line.
            return Path(path).read_bytes().decode(errors="replace")
        except OSError:
            return None

    def write(self, path: str, text: str, attempts: int = 1) -> str:
        """Writes to a file of the kernel. Returns the error; empty if there is none.

        A write that takes too long is killed and repeated. SUNRPC may wait in it for a lock, and
        not notice that the lock is free.
        """
        for _ in range(attempts):
            try:
                done = subprocess.run(["tee", path], input=text.encode(), capture_output=True,
                                      timeout=PATIENCE / attempts)  # fmt: skip
            except subprocess.TimeoutExpired:
                continue
            return done.stderr.decode(errors="replace").strip().rpartition(": ")[2]
        return "the kernel takes too long"

    def names(self, path: str) -> list[str]:
        """Returns the names in a directory in order; none if it cannot be read."""
        try:
            return sorted(entry.name for entry in Path(path).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether a file or directory exists, as far as this user can see."""
        return Path(path).exists()

    def is_denied(self, path: str) -> bool:
        """Whether a path, which may not exist, is not readable for this user."""
        try:
            Path(path).stat()
        except PermissionError:
            return True
        except OSError:
            return False
        return False

    def is_root(self) -> bool:
        """Whether this is root, which lacks some rights in a container."""
        return os.geteuid() == 0

    def run(self, *argv: str) -> Ran:
        """Runs a program that only shows something."""
        path = f"{os.environ.get('PATH', os.defpath)}:{ADMINISTRATION}"
        found = shutil.which(argv[0], path=path)
        try:
            done = subprocess.run([found or argv[0], *argv[1:]], capture_output=True,
                                  timeout=PATIENCE)  # fmt: skip
        except subprocess.TimeoutExpired:
            return Ran(124, "")
        except OSError:
            return Ran(MISSING, "")
        return Ran(done.returncode, done.stdout.decode(errors="replace"))

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def ask_port(self, address: str, port: int) -> Answer:
        """Returns the answer of a port of another host to a connection request over RDMA."""
        return ask(address, port)

    def answers_tcp(self, address: str, port: int) -> bool:
        """Whether a host accepts or refuses a TCP connection; if a packet filter drops it, not."""
        try:
            socket.create_connection((address, port), _TCP_PATIENCE).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return True

    def addresses(self, name: str) -> list[str]:
        """Returns the addresses of a name; none if it has none."""
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            # Python cannot encode a label of more than 63 characters.
            return []
        return list(dict.fromkeys(_text(entry[4]) for entry in found))


def _text(address: tuple[Any, ...]) -> str:
    """Returns an address of the socket module, with the interface if it is one of a link."""
    if len(address) < 4 or not address[3]:
        return str(address[0])
    try:
        return f"{address[0]}%{socket.if_indextoname(address[3])}"
    except OSError:
        # The resolver takes any number for that of an interface.
        return f"{address[0]}%{address[3]}"


def number(text: str | None) -> int | None:
    """Returns the decimal number in a text; None if there is none."""
    try:
        return int((text or "").strip())
    except ValueError:
        return None


def json_of(host: Host, *argv: str) -> list[dict[str, Any]]:
    """Returns the objects that a program of iproute2 prints; none if it fails."""
    done = host.run(*argv)
    if done.status != 0:
        return []
    try:
        found = json.loads(done.out or "[]")
    except json.JSONDecodeError:
        return []
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
