# SPDX-License-Identifier: GPL-2.0
"""The server's side of the bench: our module on the server against the stock one.

Every row loads the modules in turns on the same server, in every round. The client has the same
module all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ... import paths, programs
from ...pair import Pair, Setup
from ...progress import step
from .. import goals, instructions, workloads
from ..figures import Figures
from ..turns import in_turn
from . import allocations, connections, contention, costs
from .turns import PAYLOAD, mounted, serving

Measure = Callable[[Pair, str, Figures], None]


@dataclass(frozen=True)
class Row:
    """A measurement with the module that serves, repeated in some rounds."""

    title: str
    rounds: int
    measure: Measure
    payload: int = PAYLOAD


def _with_mount(measure: Measure, version: str) -> Measure:
    def wrapped(pair: Pair, module: str, figures: Figures) -> None:
        with mounted(pair, version):
            measure(pair, module, figures)

    return wrapped


def _accept(version: str) -> Row:
    def measure(pair: Pair, module: str, figures: Figures) -> None:
        connections.accept(pair, module, version, figures)

    return Row("accepting connections", 3, measure)


def _press(version: str) -> Row:
    def measure(pair: Pair, module: str, figures: Figures) -> None:
        connections.press(pair, module, version, figures)

    return Row("pressing connections", 1, measure)


def _memory(payload: int) -> Row:
    def measure(pair: Pair, module: str, figures: Figures) -> None:
        connections.memory(pair, module, payload, figures)

    return Row(f"idle connections at {payload >> 10} KiB", 1, measure, payload)


def _rows(plan: Plan) -> dict[str, list[Row]]:
    """Returns the rows by the name that `--only` takes, without those that need the plugin."""
    jobs = [(job.name, job.measured(plan.seconds)) for job in workloads.jobs((1, 16, 64))]
    metadata = _with_mount(workloads.metadata, plan.version)
    return {
        "memory": [_memory(payload) for payload in connections.PAYLOADS],
        "accept": [_accept(plan.version)],
        "many": [Row("a thousand connections", 1, connections.many, connections.PAYLOADS[0])],
        "press": [_press(plan.version)],
        "fio": [Row(name, 3, _with_mount(measure, plan.version)) for name, measure in jobs],
        "metadata": [Row("metadata", 3, metadata)],
    }


COSTS, ALLOCATIONS = COUNTED = "costs", "allocations"
NAMES = (*COUNTED, "memory", "accept", "fio", "metadata")
CONTENTION = "contention"
#: Rows that take long.
ON_REQUEST = (CONTENTION, "many", "press")
#: QEMU's arguments for a server with enough memory for the rows on request.
MEMORY = ("-m", "3584")


@dataclass(frozen=True)
class Plan:
    """The rows to measure, and for how long."""

    names: Sequence[str]
    modules: Sequence[str]
    #: Rounds of every row, or None for each row's own number.
    rounds: int | None
    #: Seconds of each job of fio.
    seconds: int
    #: The version of NFS.
    version: str


def measure(setup: Setup, plan: Plan, directory: Path, figures: Figures) -> None:
    """Measures the rows of a plan; those that need the plugin have a pair of guests of their own.

    The costs by function go to files in `directory`.
    """
    if set(COUNTED) & set(plan.names):
        _count(setup, plan, directory, figures)
    if CONTENTION in plan.names:
        _contend(setup, plan, directory, figures)
    rows = [row for name in plan.names for row in _rows(plan).get(name, ())]
    if rows:
        setup = replace(setup, files={**setup.files, **programs.build(setup.kernel.machine)})
        if set(ON_REQUEST) & set(plan.names):
            setup = replace(setup, server_extra=MEMORY, bystander="press" in plan.names)
        with _pair(setup, directory) as pair:
            for row in rows:
                _rounds(pair, row, plan, figures)


def _count(setup: Setup, plan: Plan, directory: Path, figures: Figures) -> None:
    """Measures the rows that need the plugin."""
    counts = paths.sub("tmp") / f"insncount-{time.time_ns()}"
    plugin = f"{instructions.build_plugin()},out={counts}"
    setup = replace(setup, server_extra=("-plugin", plugin, *instructions.CLOCK))
    try:
        with _pair(setup, directory / "counting") as pair:
            if COSTS in plan.names:
                counted = costs.Costs(pair, counts, plan.version)
                _rounds(pair, Row("counting instructions", 3, counted.measure), plan, figures)
                counted.finish(figures, directory)
            if ALLOCATIONS in plan.names:
                traced = allocations.Allocations(pair, counts, plan.version)
                _rounds(pair, Row("counting allocations", 1, traced.measure), plan, figures)
    finally:
        counts.unlink(missing_ok=True)


def _contend(setup: Setup, plan: Plan, directory: Path, figures: Figures) -> None:
    """Measures the locks for which a server with several processors waits."""
    out = paths.sub("tmp") / f"lockcount-{time.time_ns()}"
    try:
        with _pair(contention.prepared(setup, out), directory / "contention") as pair:
            counted = contention.Contention(pair, out, plan.version)
            row = Row("contended locks", 3, counted.measure)
            _rounds(pair, row, plan, figures)
            counted.finish(plan.rounds or row.rounds, directory)
    finally:
        out.unlink(missing_ok=True)


@contextmanager
def _pair(setup: Setup, directory: Path) -> Iterator[Pair]:
    """Boots a pair whose client has loaded its module."""
    with Pair(setup, directory) as pair:
        pair.load()
        costs.prepare(pair)
        workloads.prepare(pair)
        yield pair


def _rounds(pair: Pair, row: Row, plan: Plan, figures: Figures) -> None:
    """Runs a row in every round with every module, and prints its figures.

    Another module begins each time.
    """
    rounds, before = plan.rounds or row.rounds, len(list(figures))
    for turn in range(rounds):
        for module in in_turn(plan.modules, turn):
            title = f"{row.title}, round {turn + 1} of {rounds}, {module}"
            with step(title), serving(pair, module, row.payload):
                row.measure(pair, module, figures)
    for figure in list(figures)[before:]:
        print(goals.line(figure))
