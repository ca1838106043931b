# SPDX-License-Identifier: GPL-2.0
"""The goals of the paths: the highest cost of an RPC, compared with the kernel's own module."""

from __future__ import annotations

from dataclasses import dataclass

#: The instructions of READ, WRITE and inline calls, as a fraction of those of the kernel's module.
FAST = 0.90
#: The same for all other kinds.
OTHER = 1.05


@dataclass(frozen=True)
class Goal:
    """The highest cost of one kind of RPC."""

    #: Instructions, as a fraction of those of the kernel's module.
    ratio: float
    #: Pairs of taking and releasing a lock.
    locks: float
    #: Atomic read-modify-write instructions.
    atomics: float
    #: Calls of the allocators.
    allocations: float = 0


def _client(ratio: float) -> Goal:
    """Returns the goal of a kind of the client, whose path has six locks and no locked add."""
    return Goal(ratio, locks=6, atomics=0)


#: Every kind has a goal. Locks, atomics and allocations may not grow.
GOALS = {
    "inline": _client(FAST),
    "read_4k": _client(FAST),
    "read_4k_local": Goal(OTHER, locks=9, atomics=0),
    "write_4k": _client(FAST),
    "read_1m_adjacent": _client(0.70),
    "read_1m_scattered": _client(FAST),
    "write_1m_adjacent": _client(0.70),
    "write_1m_scattered": _client(FAST),
    "readdir": _client(OTHER),
    "long_call": Goal(OTHER, locks=6, atomics=1, allocations=1),
    "inline_two": _client(FAST),
    "read_4k_two": _client(FAST),
    "write_4k_two": _client(FAST),
    "readdir_two": _client(OTHER),
    "callback": Goal(OTHER, locks=3.3, atomics=6),
    "abandoned": Goal(OTHER, locks=16, atomics=2),
    "srv_getattr": Goal(FAST, locks=11, atomics=11),
    "srv_read_4k": Goal(FAST, locks=12.5, atomics=12),
    "srv_read_4k_cached": Goal(FAST, locks=14, atomics=12),
    "srv_write_4k": Goal(FAST, locks=16, atomics=10),
    "srv_read_1m": Goal(FAST, locks=14, atomics=12),
    "srv_write_1m": Goal(FAST, locks=16, atomics=10),
    "srv_readdir": Goal(OTHER, locks=12.5, atomics=12),
    "srv_long_call": Goal(OTHER, locks=16, atomics=10),
}

#: Kinds with many calls in flight: the same kind with one call, and the highest ratio of the
#: instructions. The kernel's own module is not measured: with these calls, it posts one work
#: request more than its send queue has.
CROWDED = {"srv_write_1m_64": ("srv_write_1m", 1.05)}

#: Kinds whose goal is not reached: the ratio that they may have until it is. It may only fall.
OWED = {
    "callback": 1.14,
    "abandoned": 1.52,
    "srv_read_4k_cached": 0.95,
}


@dataclass(frozen=True)
class Measured:
    """The cost of one kind of RPC."""

    ratio: float
    locks: float
    atomics: float
    allocations: float


def crowded(instructions: dict[str, int]) -> list[str]:
    """Returns a message for each kind of `CROWDED` that costs too much beside its other kind."""
    found = []
    for kind, (alone, most) in CROWDED.items():
        if kind in instructions and alone in instructions:
            ratio = instructions[kind] / instructions[alone]
            if ratio > most:
                found.append(f"{kind}: {ratio:.3f} of {alone}; goal: {most:.2f}")
    return found


def missed(
    measured: dict[str, Measured],
    goals: dict[str, Goal] = GOALS,
    owed: dict[str, float] = OWED,
    tolerance: float = 0,
) -> list[str]:
    """Returns a message for each goal that is missed, or whose kind was not measured.

    A kind that is owed fails when its ratio grows, and when its goal is reached. With a tolerance,
    a ratio may exceed the highest by that fraction, and a goal may be reached.
    """
    found = []
    for kind, goal in goals.items():
        if kind not in measured:
            found.append(f"{kind}: has a goal, but was not measured")
            continue
        now = measured[kind]
        most_ratio = owed.get(kind, goal.ratio)
        if now.ratio > most_ratio * (1 + tolerance):
            found.append(f"{kind}: {now.ratio:.3f} of the kernel's module; goal: {most_ratio:.2f}")
        elif kind in owed and now.ratio <= goal.ratio and not tolerance:
            found.append(f"{kind}: reaches its goal of {goal.ratio:.2f}: take it out of OWED")
        for name in ("locks", "atomics", "allocations"):
            most = getattr(goal, name)
            if getattr(now, name) > most:
                found.append(f"{kind}: {getattr(now, name)} {name}; goal: {most:g}")
    return found
