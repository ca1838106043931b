# SPDX-License-Identifier: GPL-2.0
"""The connections as the module shows them in debugfs.

Documentation/connections.rst describes the fields.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from .errors import UsageError
from .host import Host
from .table import duration

FOLDER = "/sys/kernel/debug/rpcrdma"
FILE = f"{FOLDER}/connections"

#: The fields that are no numbers.
_TEXT = {"role", "peer", "state", "lost", "device"}

#: The meanings of the reasons of a loss.
LOSSES = {
    "none": "no connection was lost",
    "device": "the device, or its address, has gone",
    "peer": "the peer has disconnected",
    "failed": "a work request has failed",
    "forced": "this side has closed it because of the peer",
    "closed": "SUNRPC has closed it: idle, or no longer needed",
}


@dataclass(frozen=True)
class Connection:
    """A line of the file. A field that the line lacks is absent from `numbers`."""

    texts: dict[str, str]
    numbers: dict[str, int]

    def __getitem__(self, name: str) -> int:
        """Returns a number; 0 if the line lacks it, as a transport without connection does."""
        return self.numbers.get(name, 0)

    @property
    def role(self) -> str:
        """The side of this host: ``client`` or ``server``."""
        return self.texts.get("role", "?")

    @property
    def peer(self) -> str:
        """Address and port of the peer."""
        return self.texts.get("peer", "?")

    @property
    def address(self) -> str:
        """The address of the peer without port and brackets."""
        return self.peer.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> str:
        """The port of the peer."""
        return self.peer.rpartition(":")[2]

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self.texts.get("state") == "up"

    @property
    def device(self) -> str:
        """Device and port, as in ``rxe0/1``; empty without a connection."""
        name = self.texts.get("device")
        return f"{name}/{self['port']}" if name else ""

    @property
    def lost(self) -> str:
        """Why the latest connection was lost."""
        return self.texts.get("lost", "none")

    @property
    def error(self) -> str:
        """The error of the latest attempt that failed; empty if the latest one succeeded."""
        code = -self["error"]
        return f"{errno.errorcode.get(code, code)} ({os.strerror(code)})" if code else ""

    @property
    def attempts(self) -> str:
        """The attempts to connect that have failed, and the next one; empty if none has failed."""
        if self.is_up or not self["failures"]:
            return ""
        told = f"{self['failures']} failed"
        if "failing_s" in self.numbers:
            told += f" in {duration(self['failing_s'])}"
        return f"{told}, {self.next_attempt}" if self.next_attempt else told

    @property
    def next_attempt(self) -> str:
        """When the next attempt to connect begins; empty if none is planned."""
        seconds = self.numbers.get("next_attempt_s", -1)
        if seconds > 0:
            return f"next attempt in {seconds} s"
        return "an attempt is due" if seconds == 0 else ""

    def as_json(self) -> dict[str, str | int]:
        """Returns all fields."""
        return {**self.texts, **self.numbers}


def parse(text: str) -> list[Connection]:
    """Returns the connections of the file's text. Unknown fields are kept."""
    return [_parse_line(line) for line in text.splitlines() if line.strip()]


def _parse_line(line: str) -> Connection:
    texts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if not equals:
            continue
        if name not in _TEXT and value.lstrip("-").isdigit():
            numbers[name] = int(value)
        else:
            texts[name] = value
    return Connection(texts, numbers)


def read(host: Host) -> list[Connection]:
    """Returns the connections of this machine.

    # Errors
    `UsageError`: the module does not show them.
    """
    text = host.read(FILE)
    if text is not None:
        return parse(text)
    raise UsageError(why_unreadable(host))


def why_unreadable(host: Host) -> str:
    """Returns why the file cannot be read, and what helps."""
    if host.is_denied(FILE):
        return "only root may read the connections: run the command with sudo"
    if not host.exists("/sys/module/rpcrdma"):
        return "the module is not loaded: modprobe rpcrdma"
    if not host.exists("/sys/module/rpcrdma/version"):
        return "the loaded rpcrdma.ko is the kernel's own, which shows no connections"
    if not host.names("/sys/kernel/debug"):
        return "debugfs is not mounted: mount -t debugfs none /sys/kernel/debug"
    return f"no {FILE}: this version of the module does not have it"
