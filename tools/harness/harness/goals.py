# SPDX-License-Identifier: GPL-2.0
"""The goals of the paths: the highest cost of an RPC, compared with the kernel's own module."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """The highest cost of one kind of RPC."""

    #: Instructions, as a fraction of those of the kernel's module.
    ratio: float
    #: Pairs of taking and releasing a lock; `None` for any number.
    locks: float | None = None
    #: Atomic read-modify-write instructions; `None` for any number.
    atomics: float | None = None


def _client(ratio: float) -> Goal:
    """Returns the goal of a kind of the client, whose path has six locks and no locked add."""
    return Goal(ratio, locks=6, atomics=0)


#: The kinds that have a goal. The others are compared with the file figures.tsv alone.
GOALS = {
    "inline": _client(0.90),
    "read_4k": _client(0.85),
    "write_4k": _client(0.85),
    "read_1m_adjacent": _client(0.70),
    "read_1m_scattered": _client(0.90),
    "write_1m_adjacent": _client(0.70),
    "write_1m_scattered": _client(0.90),
    "readdir": _client(1.00),
    "long_call": Goal(1.00, locks=6),
    "srv_getattr": Goal(0.90),
    "srv_read_4k": Goal(0.90),
    # The header of each call with a read chunk is read, so that the chunk begins behind it.
    "srv_write_4k": Goal(0.93),
    "srv_read_1m": Goal(0.90),
    "srv_write_1m": Goal(0.90),
    "srv_readdir": Goal(1.00),
    "srv_long_call": Goal(1.00),
}


@dataclass(frozen=True)
class Measured:
    """The cost of one kind of RPC."""

    ratio: float
    locks: float
    atomics: float


def missed(measured: dict[str, Measured], goals: dict[str, Goal] = GOALS) -> list[str]:
    """Returns a message for each goal that is missed, or whose kind was not measured."""
    found = []
    for kind, goal in goals.items():
        if kind not in measured:
            found.append(f"{kind}: has a goal, but was not measured")
            continue
        now = measured[kind]
        if now.ratio > goal.ratio:
            found.append(f"{kind}: {now.ratio:.3f} of the kernel's module; goal: {goal.ratio:.2f}")
        for name in ("locks", "atomics"):
            most = getattr(goal, name)
            if most is not None and getattr(now, name) > most:
                found.append(f"{kind}: {getattr(now, name)} {name}; goal: {most:g}")
    return found
