# SPDX-License-Identifier: GPL-2.0
"""The calls of a recording, by operation and form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..top.latencies import quantile
from ..trace.calls import Call
from ..trace.rpcs import Rpc

#: Operations of NFSv4 that say where others work, or what these have changed.
_BESIDE = frozenset(
    ("SEQUENCE", "PUTFH", "PUTROOTFH", "GETFH", "SAVEFH", "RESTOREFH", "GETATTR"),
)


@dataclass
class Group:
    """The calls of one operation in one form."""

    #: Microseconds from the Send to the reply; of a call that is served, from when a thread of nfsd
    #: has taken it to its reply.
    rtts: list[int] = field(default_factory=list)
    #: Microseconds of registration; of a call that is served, of its RDMA Reads.
    mappings: list[float] = field(default_factory=list)
    retransmissions: int = 0

    def as_json(self, mapping: str = "registration_us") -> dict[str, Any]:
        """Returns the numbers that the page shows. `mapping`: the name of the last but one."""
        return {
            "calls": len(self.rtts),
            "median_us": quantile(self.rtts, 0.5),
            "p99_us": quantile(self.rtts, 0.99),
            "max_us": max(self.rtts, default=0),
            mapping: round(quantile(self.mappings, 0.5), 1),
            "retransmissions": self.retransmissions,
        }


@dataclass
class Tally:
    """The calls that this host has made, or those that it has served."""

    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    #: The calls by the bytes of their chunks, in powers of two; 0 for calls without chunks.
    sizes: dict[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of calls."""
        return sum(len(group.rtts) for group in self.groups.values())

    def add(self, rpc: Rpc) -> None:
        """Adds a call that this host has made, and that has ended."""
        if not rpc.is_rdma or rpc.rtt is None:
            return
        group = self._add((rpc.name, rpc.form), rpc.rtt, rpc.registered)
        group.retransmissions += rpc.retransmissions
        if rpc.mapping:
            group.mappings.append(rpc.mapping)

    def add_served(self, call: Call) -> None:
        """Adds a call that this host has served, if nfsd has processed it."""
        took = call.until("svc_stats_latency")
        if took is None:
            return
        bytes_ = call.read_bytes + call.written_bytes
        group = self._add((operation(call), call.form), round(took * 1e6), bytes_)
        if call.fetched:
            group.mappings.append(call.fetched)

    def _add(self, key: tuple[str, str], rtt: int, bytes_: int) -> Group:
        group = self.groups.setdefault(key, Group())
        group.rtts.append(rtt)
        size = 1 << (bytes_ - 1).bit_length() if bytes_ else 0
        self.sizes[size] = self.sizes.get(size, 0) + 1
        return group

    def largest(self, most: int) -> Sequence[tuple[str, str]]:
        """Returns operations and forms, those with the longest total time first."""
        return sorted(self.groups, key=lambda key: -sum(self.groups[key].rtts))[:most]

    def as_json(self, mapping: str = "registration_us") -> list[dict[str, Any]]:
        """Returns the numbers of each operation and form."""
        return [
            {"operation": name, "form": form, **self.groups[name, form].as_json(mapping)}
            for name, form in sorted(self.groups)
        ]

    def sizes_as_json(self) -> dict[str, int]:
        """Returns the calls by the bytes of their chunks."""
        return {str(bytes_): count for bytes_, count in sorted(self.sizes.items())}


def operation(call: Call) -> str:
    """Returns service, version and procedure; for a COMPOUND operations beyond finding files."""
    program = call.program.replace(" ", "")
    if not call.operations:
        return f"{program} {call.procedure}".strip() or "a call"
    works = [name for name in call.operations if name not in _BESIDE]
    return f"{program} {' '.join(works) or call.operations[-1]}"
