# SPDX-License-Identifier: GPL-2.0
"""What is measured by the clock: one job at a time, with each module right after the other.

What else the host does changes within minutes. So that it hits both alike, the modules take turns
by the job, a few seconds each, and what counts is the ratio within a turn.
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
    """Something to measure with one module, and what it finds: the module alone, or a mount."""

    name: str
    measure: Measure
    ready: Callable[[Pair, str], AbstractContextManager[None]] = using


def jobs(seconds: int) -> list[Job]:
    """All of them; those of fio take so many seconds each."""
    return [
        Job("connecting", connections.connect_time, loaded),
        Job("memory of connections", connections.memory, loaded),
        Job("send lock", connections.send_lock),
        *(Job(job.name, job.measured(seconds)) for job in workloads.JOBS),
        Job("metadata", workloads.metadata),
    ]


def by_the_clock(
    pair: Pair, modules: Sequence[str], rounds: int, seconds: int, figures: Figures
) -> None:
    """Every job in every round, with every module. Another one begins each time."""
    workloads.prepare(pair)
    for turn in range(rounds):
        for number, job in enumerate(jobs(seconds)):
            with step(f"round {turn + 1} of {rounds}, {job.name}"):
                for module in in_turn(modules, turn + number):
                    with job.ready(pair, module):
                        job.measure(pair, module, figures)
