# SPDX-License-Identifier: GPL-2.0
"""The kernel's counters of each operation of each mount, in /proc/self/mountstats."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import mounts
from .host import Host

FILE = "/proc/self/mountstats"

_DEVICE = re.compile(r"device ([^ \n]+) mounted on ([^ \n]+) with fstype (nfs4?)\b")
#: The names of the values of a transport, in the order of the file.
_FIELDS = (
    "port",
    "bind_count",
    "connect_count",
    "connect_seconds",
    "idle_seconds",
    "sends",
    "recvs",
    "bad_xids",
    "req_u",
    "bklog_u",
    "read_chunks",
    "write_chunks",
    "reply_chunks",
    "rdma_request_bytes",
    "rdma_reply_bytes",
    "pullup",
    "fixup",
    "hardway",
    "failed_marshal",
    "bad_reply",
    "nomsg",
    "recycled",
    "orphaned",
    "allocated",
    "local_inv",
    "empty_sendctx",
)

#: The counters of a transport by name; Documentation/admin-guide.rst describes them.
Transport = dict[str, int]

_OPERATION = re.compile(r"\s+([A-Z0-9_]+):((?: -?\d{1,20})+)", re.ASCII)
#: A server can forge lines: the kernel shows the name of the implementation as it is.
_NUMBER = re.compile(r"-?\d{1,20}", re.ASCII)


@dataclass(frozen=True)
class Counts:
    """The counters of one operation. Times are in milliseconds."""

    operations: int = 0
    transmissions: int = 0
    timeouts: int = 0
    sent: int = 0
    received: int = 0
    queued_ms: int = 0
    rtt_ms: int = 0
    execute_ms: int = 0
    errors: int = 0

    def __sub__(self, other: Counts) -> Counts:
        """Returns the increase since `other`."""
        return Counts(*(a - b for a, b in zip(self.values(), other.values(), strict=True)))

    def __add__(self, other: Counts) -> Counts:
        """Returns the sum."""
        return Counts(*(a + b for a, b in zip(self.values(), other.values(), strict=True)))

    def values(self) -> tuple[int, ...]:
        """Returns the counters in the order of the file."""
        return (
            self.operations,
            self.transmissions,
            self.timeouts,
            self.sent,
            self.received,
            self.queued_ms,
            self.rtt_ms,
            self.execute_ms,
            self.errors,
        )

    @property
    def retransmissions(self) -> int:
        """The calls that were sent again."""
        return max(0, self.transmissions - self.operations)


#: The counters of each operation by file system, or by mount point.
Systems = dict[str, dict[str, Counts]]


def parse(text: str) -> Systems:
    """Returns the counters of each operation by mount point, for mounts by RDMA."""
    found: dict[str, dict[str, Counts]] = {}
    point, is_rdma, operations = "", False, {}
    for line in text.split("\n"):
        device = _DEVICE.match(line)
        if device:
            point, is_rdma, operations = device[2], False, {}
        elif line.startswith("device "):
            point = ""
        elif line.strip().startswith("xprt:") and "rdma" in line:
            is_rdma = True
            found[point] = operations
        elif is_rdma and point:
            operation = _OPERATION.fullmatch(line)
            if operation:
                numbers = [int(word) for word in operation[2].split()][:9]
                operations[operation[1]] = Counts(*numbers)
    return found


def transports(text: str) -> dict[str, list[Transport]]:
    """Returns the counters of each transport by RDMA, by the mount points that the text names."""
    found: dict[str, list[Transport]] = {}
    point = ""
    for line in text.split("\n"):
        device, words = _DEVICE.match(line), line.split()
        if line.startswith("device "):
            point = mounts.unescape(device[2]) if device else ""
        elif point and words[:2] == ["xprt:", "rdma"] and len(words) > len(_FIELDS) + 1:
            values = words[2 : 2 + len(_FIELDS)]
            if all(map(_NUMBER.fullmatch, values)):
                numbers = dict(zip(_FIELDS, map(int, values), strict=True))
                found.setdefault(point, []).append(numbers)
    return found


def systems(host: Host) -> Systems:
    """Returns the counters of each file system by RDMA.

    A file system that is mounted at several points shows the same counters at each of them.
    """
    numbers = {mount.point: mount.number for mount in mounts.mounts(host)}
    found: Systems = {}
    for point, operations in parse(host.read(FILE) or "").items():
        name = mounts.unescape(point)
        found[numbers.get(name, name)] = operations
    return found


def total(found: Systems) -> dict[str, Counts]:
    """Returns the counters of each operation, added up over all file systems."""
    sums: dict[str, Counts] = {}
    for operations in found.values():
        for name, counts in operations.items():
            sums[name] = sums.get(name, Counts()) + counts
    return sums


def increase(before: Systems, after: Systems) -> dict[str, Counts]:
    """Returns the increase of each operation that was used in between, over all file systems.

    A mount that has gone takes its counters along.
    """
    grown = {
        system: {
            name: _grown(before.get(system, {}).get(name), now) for name, now in counts.items()
        }
        for system, counts in after.items()
    }
    return {name: counts for name, counts in total(grown).items() if counts.operations > 0}


def _grown(before: Counts | None, after: Counts) -> Counts:
    """Returns the increase of an operation of a file system, whose number may be a new mount's."""
    grown = after - (before or Counts())
    return after if min(grown.values()) < 0 else grown
