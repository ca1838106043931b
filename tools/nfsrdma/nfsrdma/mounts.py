# SPDX-License-Identifier: GPL-2.0
"""Mounts of NFS, and the listeners of nfsd."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .host import Host

MOUNTINFO = "/proc/self/mountinfo"
PORTLIST = "/proc/fs/nfsd/portlist"

#: Options that take rights from the programs of a mount.
_FLAGS = ("nosuid", "nodev", "noexec")

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mount of NFS."""

    point: str
    source: str
    options: dict[str, str]
    #: The number of the file system, as in ``0:31``. Mounts of the same one share its counters.
    number: str = ""
    #: Whether nothing can be written through it.
    is_read_only: bool = False
    #: The options of the mount itself that are not NFS's, as mount(8) takes them.
    flags: tuple[str, ...] = ()

    @property
    def is_rdma(self) -> bool:
        """Whether it uses RDMA."""
        return self.options.get("proto", "").startswith("rdma")

    @property
    def address(self) -> str:
        """The server's address."""
        return self.options.get("addr", "")

    @property
    def version(self) -> str:
        """The version of NFS."""
        return self.options.get("vers", "?")

    def as_json(self) -> dict[str, str]:
        """Returns what ``--json`` prints."""
        names = ("vers", "proto", "port", "addr", "rsize", "wsize", "sec", "nconnect")
        chosen = {name: self.options[name] for name in names if name in self.options}
        return {"point": self.point, "source": self.source, **chosen}


@dataclass(frozen=True)
class Listener:
    """A port of nfsd."""

    transport: str
    port: int

    def as_json(self) -> dict[str, str | int]:
        """Returns what ``--json`` prints."""
        return {"transport": self.transport, "port": self.port}


def mounts(host: Host) -> list[Mount]:
    """Returns the mounts of NFS that this process sees."""
    # A name may contain all that Python also takes for the end of a line, or for a blank.
    lines = (host.read(MOUNTINFO) or "").split("\n")
    return [mount for mount in map(_mount, lines) if mount]


def _mount(line: str) -> Mount | None:
    before, dash, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if not dash or len(fields) < 6 or len(rest) < 3 or rest[0] not in ("nfs", "nfs4"):
        return None
    options = {}
    for option in rest[2].split(","):
        name, _, value = option.partition("=")
        options[name] = value
    # The file system and each mount of it have their own.
    own = fields[5].split(",")
    is_read_only = "ro" in options or "ro" in own
    flags = tuple(flag for flag in own if flag in _FLAGS)
    return Mount(unescape(fields[4]), unescape(rest[1]), options, fields[2], is_read_only, flags)


def unescape(text: str) -> str:
    """Undoes the octal escapes of the kernel in names of mounts.

    A server chooses names: `table.printable` makes them fit for a terminal.
    """
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)


def listeners(host: Host) -> list[Listener]:
    """Returns the ports at which nfsd listens for RDMA, each once: both families have a line."""
    found = []
    for line in (host.read(PORTLIST) or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0].startswith("rdma") and words[1].isdigit():
            found.append(Listener(words[0], int(words[1])))
    return list(dict.fromkeys(found))
