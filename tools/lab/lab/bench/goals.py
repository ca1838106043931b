# SPDX-License-Identifier: GPL-2.0
"""The goals of the server's figures, and the table that shows which are reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .figures import MODULES, OURS, Figure

#: A ratio of ours to stock or a value of ours; the figure must not exceed it.
RATIO, VALUE = "ratio", "value"


@dataclass(frozen=True)
class Goal:
    """The bound of a figure's ratio or of its value."""

    kind: str
    bound: float

    def reached(self, figure: Figure) -> bool | None:
        """Whether the median reaches the goal; None if it was not measured."""
        found = figure.ratio if self.kind == RATIO else figure.median(OURS)
        return None if found is None else found <= self.bound

    def __str__(self) -> str:
        """Returns the bound as the table shows it."""
        return f"{'x' if self.kind == RATIO else ''}{self.bound:g}"


def _by_verb(figure: str, kind: str, bounds: dict[str, float]) -> dict[str, Goal]:
    return {f"{verb}, {figure}": Goal(kind, bound) for verb, bound in bounds.items()}


_VERBS = ("GETATTR", "READ 4 KiB", "WRITE 4 KiB", "READ 1 MiB", "WRITE 1 MiB")
_SMALL = _VERBS[:3]
_WHOLE = dict(zip(_VERBS, (0.92, 0.92, 0.85, 0.97, 0.97), strict=True))
_WOKEN = {verb: 1.1 if verb.startswith("WRITE") else 1.05 for verb in _VERBS}
GOALS = {
    **_by_verb("module and libraries", RATIO, dict.fromkeys(_VERBS, 0.9)),
    **_by_verb("whole guest", RATIO, _WHOLE),
    **_by_verb("nfsd woken", VALUE, _WOKEN),
    **_by_verb("task switches", RATIO, dict.fromkeys(_SMALL, 0.7)),
    **_by_verb("send completions", VALUE, {"GETATTR": 0.25}),
    # Some allocations of a run belong to no operation.
    **_by_verb("slab objects", VALUE, dict.fromkeys(_VERBS, 0.05)),
    **_by_verb("pages", VALUE, {verb: 0.05 for verb in _VERBS if verb.startswith("WRITE")}),
    **{
        f"idle connection, {size} KiB payload, all but the queues": Goal(VALUE, 512)
        for size in (256, 1024, 4096)
    },
    "48 connections, established in": Goal(VALUE, 0.5),
    "contended, per 1,000 WRITEs of 1 MiB, 8 connections": Goal(RATIO, 0.5),
}


def table(figures: Iterable[Figure]) -> str:
    """Returns medians of both modules, their ratio with its least and greatest, and the goal."""
    head = f"{'':48} {'unit':12}" + "".join(f" {module:>11}" for module in MODULES)
    lines = [head + f" {'ours/stock':>11} {'min-max':>10} {'goal':>7}"]
    return "\n".join([*lines, *map(line, figures)])


def line(figure: Figure) -> str:
    """Returns the line of one figure."""
    cells = "".join(f" {_number(figure.median(module)):>11}" for module in MODULES)
    ratio, spread = "-", ""
    if figure.ratio is not None and figure.spread is not None:
        ratio, spread = f"{figure.ratio:.2f}", "{:.2f}-{:.2f}".format(*figure.spread)
    goal, verdict = GOALS.get(figure.name), ""
    if goal is not None:
        known = {True: "reached", False: "missed", None: ""}
        verdict = f" {goal!s:>7}  {known[goal.reached(figure)]}"
    elif figure.worse:
        verdict = f" {'':7}  worse"
    text = f"{figure.name:48} {figure.unit:12}{cells} {ratio:>11} {spread:>10}{verdict}"
    return text.rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
