# SPDX-License-Identifier: GPL-2.0
"""Measures by the clock, one job at a time, with each module right after the other.

The other load of the host changes within minutes. The modules take turns with each job of some
seconds, so that the load affects both alike, and the result is the ratio within a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ..pair import Pair
from ..progress import step
from . import connections, workloads
from .figures import Figures
from .turns import in_turn, loaded, using

Measure = Callable[[Pair, str, Figures], None]


@dataclass(frozen=True)
class Job:
    """A measurement with one module, and whether it needs the module alone or a mount."""

    name: str
    measure: Measure
    ready: Callable[[Pair, str], AbstractContextManager[None]] = using


def jobs(seconds: int) -> list[Job]:
    """Returns all jobs; each job of fio takes that many seconds."""
    return [
        Job("connecting", connections.connect_time, loaded),
        Job("memory of connections", connections.memory, loaded),
        Job("send lock", connections.send_lock),
        *(Job(job.name, job.measured(seconds)) for job in workloads.jobs((1, 16))),
        Job("metadata", workloads.metadata),
    ]


def by_the_clock(
    pair: Pair, modules: Sequence[str], rounds: int, seconds: int, figures: Figures
) -> None:
    """Runs every job in every round with every module. Another module begins each time."""
    workloads.prepare(pair)
    for turn in range(rounds):
        for number, job in enumerate(jobs(seconds)):
            with step(f"round {turn + 1} of {rounds}, {job.name}"):
                for module in in_turn(modules, turn + number):
                    with job.ready(pair, module):
                        job.measure(pair, module, figures)
