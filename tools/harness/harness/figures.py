# SPDX-License-Identifier: GPL-2.0
"""Prints instructions by kind of RPC, and compares them with the file figures.tsv."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.progress import say

from . import build, callgrind, goals

FILE = build.HARNESS / "figures.tsv"
#: The fraction by which the cost of a kind may exceed its figure in the file.
TOLERANCE = 0.02
_COLUMNS = ("module", "helpers", "locks", "atomics", "allocations")
_HEADER = "# SPDX-License-Identifier: GPL-2.0"
_COMPILER = "# compiler: "


@dataclass(frozen=True)
class Figure:
    """The cost of one RPC."""

    module: int
    helpers: int
    locks: float
    atomics: float
    allocations: float

    @property
    def instructions(self) -> int:
        """The number that is compared."""
        return self.module + self.helpers


def _count(kind: str) -> int:
    """Returns the number of repetitions: whole batches of work requests, fewer for large payloads.

    One inline reply of the server in 150 has a completion, which is for all of them.
    """
    if kind == "srv_getattr":
        return 600
    if kind.endswith("_64"):
        return 128
    return 32 if "1m" in kind else 128


def figure(cost: callgrind.Cost, count: int) -> Figure:
    """Returns the mean of `count` RPCs."""
    rest = (round(n / count, 1) for n in (cost.locks, cost.atomics, cost.allocations))
    return Figure(round(cost.module / count), round(cost.helpers / count), *rest)


def kinds(program: build.Program) -> list[str]:
    """Returns the kinds of RPC that the program knows."""
    status, text = build.run(program, "kinds")
    if status:
        raise LabError(f"{program.path} kinds: {text}")
    return text.split()


def _costs(program: build.Program, only: str) -> dict[str, callgrind.Cost]:
    image = callgrind.Image(program)
    chosen = fnmatch.filter(kinds(program), only or "*")
    if program.name == "stock":
        chosen = [kind for kind in chosen if kind not in goals.CROWDED]
    return {kind: callgrind.measure(image, kind, _count(kind)) for kind in chosen}


def _print_functions(name: str, kind: str, cost: callgrind.Cost) -> None:
    say(f"  {kind}, {name}:")
    for function, spent in cost.functions.most_common(30):
        share = round(spent / _count(kind))
        if share:
            say(f"    {share:7} {_demangled(function)}")


def _demangled(name: str) -> str:
    return build.capture(["c++filt", name]).strip() if name.startswith("_R") else name


def _ratio(kind: str, ours: callgrind.Cost, stock: callgrind.Cost) -> float:
    """Returns our instructions as a fraction of those of the kernel's module."""
    count = _count(kind)
    other = figure(stock, count)
    return figure(ours, count).instructions / (other.instructions + round(stock.aides / count))


def _row(kind: str, ours: callgrind.Cost, stock: callgrind.Cost | None) -> str:
    count = _count(kind)
    mine = figure(ours, count)
    text = f"{kind:20}{mine.module:8}{mine.helpers:8}{mine.locks:7.1f}{mine.atomics:8.1f}"
    text += f"{mine.allocations:7.1f}"
    if stock:
        other = figure(stock, count)
        aides = other.helpers + round(stock.aides / count)
        text += f"  |{other.module:8}{aides:8}{other.locks:7.1f}{other.atomics:8.1f}"
        text += f"{other.allocations:7.1f}  | {_ratio(kind, ours, stock):5.2f}"
        if kind in goals.GOALS:
            text += f"  {goals.GOALS[kind].ratio:.2f}"
    return text


@dataclass(frozen=True)
class Table:
    """The measured figures."""

    #: The figures of our module.
    figures: dict[str, Figure]
    #: The figures to compare with the goals; empty without the kernel's module.
    measured: dict[str, goals.Measured]


def table(programs: list[build.Program], only: str, *, verbose: bool = False) -> Table:
    """Measures and prints the figures."""
    costs = {p.name: _costs(p, only) for p in programs}
    stock = costs.get("stock", {})
    say("instructions of one RPC: module and helpers; for the C module also xdr.o and others")
    head = f"{'module':>8}{'helpers':>8}{'locks':>7}{'atomics':>8}{'allocs':>7}"
    say(f"{'kind':20}{head}  |{head.replace('helpers', '   xdr+')}  | ours/C  goal")
    for kind, cost in costs["ours"].items():
        say(_row(kind, cost, stock.get(kind)))
        if verbose:
            for name in costs:
                _print_functions(name, kind, costs[name][kind])
    found = {kind: figure(cost, _count(kind)) for kind, cost in costs["ours"].items()}
    return Table(found, {kind: _measured(kind, costs, found[kind]) for kind in stock})


def _measured(
    kind: str, costs: dict[str, dict[str, callgrind.Cost]], mine: Figure
) -> goals.Measured:
    ratio = _ratio(kind, costs["ours"][kind], costs["stock"][kind])
    return goals.Measured(ratio, mine.locks, mine.atomics, mine.allocations)


def write(figures: dict[str, Figure], compiler: str, path: Path = FILE) -> None:
    """Writes the file that later figures are compared with."""
    lines = [_HEADER, "# Written by: make bench-path UPDATE=1", _COMPILER + compiler]
    lines.append("\t".join(("kind", *_COLUMNS)))
    for kind, value in figures.items():
        lines.append("\t".join([kind, *(str(getattr(value, name)) for name in _COLUMNS)]))
    path.write_text("\n".join(lines) + "\n")


def read(path: Path = FILE) -> tuple[str, dict[str, Figure]]:
    """Returns the compiler of the file's figures, and the figures."""
    compiler, figures = "", {}
    for line in path.read_text().splitlines():
        if line.startswith(_COMPILER):
            compiler = line.removeprefix(_COMPILER)
        if line.startswith(("#", "kind\t")):
            continue
        kind, module, helpers, *rest = line.split("\t")
        figures[kind] = Figure(int(module), int(helpers), *map(float, rest))
    return compiler, figures


def complaints(measured: dict[str, Figure], expected: dict[str, Figure]) -> list[str]:
    """Returns a message for each kind that costs more or is missing."""
    found = [f"{kind}: listed, but there is no such kind" for kind in expected.keys() - measured]
    found += [f"{kind}: measured, but not listed" for kind in measured.keys() - expected]
    for kind in sorted(measured.keys() & expected):
        now, before = measured[kind].instructions, expected[kind].instructions
        if now > before * (1 + TOLERANCE):
            found.append(f"{kind}: {now} instructions; before: {before}")
    return found


def check(compiler: str, found: Table, path: Path = FILE) -> bool:
    """Compares with the goals, and with the file, unless its figures are of another compiler.

    Returns whether all goals are met, and no kind costs more than before.
    """
    used, expected = read(path)
    if compiler != used:
        say(f"figures: not compared: measured with {used}, not {compiler}")
        return check_goals(found, TOLERANCE)
    grown = complaints(found.figures, expected)
    for line in grown:
        say(f"figures: {line}")
    if grown:
        say(f"figures: if this is intended, run make bench-path UPDATE=1 and commit {FILE.name}")
    return not grown and check_goals(found)


def check_goals(found: Table, tolerance: float = 0) -> bool:
    """Compares with the goals, if the kernel's module was measured. Returns whether all are met.

    The tolerance is that of the ratios, which depend on the compilers of both modules.
    """
    if not found.measured:
        say("goals: not compared: the kernel's own module was not measured")
        return True
    lines = goals.missed(found.measured, tolerance=tolerance)
    lines += goals.crowded({kind: value.instructions for kind, value in found.figures.items()})
    for line in lines:
        say(f"goals: {line}")
    return not lines
