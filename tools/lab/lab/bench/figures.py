# SPDX-License-Identifier: GPL-2.0
"""The measured figures by module, their ratios, and the table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

STOCK, OURS = MODULES = ("stock", "ours")
#: The number of rounds that a verdict needs.
ENOUGH = 3


@dataclass
class Figure:
    """A figure, measured once in every round with each module."""

    name: str
    unit: str
    #: Whether more is better, as with IOPS; fewer instructions are better.
    more: bool
    values: dict[str, list[float]] = field(default_factory=dict)

    def note(self, module: str, value: float) -> None:
        """Adds the value of a round."""
        self.values.setdefault(module, []).append(value)

    def median(self, module: str) -> float | None:
        """Returns the median of a module, or None if the module was not measured."""
        values = self.values.get(module)
        return statistics.median(values) if values else None

    @property
    def rounds(self) -> list[float]:
        """Returns the ratio of ours to stock in each round."""
        pairs = zip(self.values.get(STOCK, ()), self.values.get(OURS, ()), strict=False)
        return [ours / stock for stock, ours in pairs if stock]

    @property
    def ratio(self) -> float | None:
        """Returns the median ratio of ours to stock, or None if a module was not measured."""
        return statistics.median(self.rounds) if self.rounds else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """Returns the least and the greatest ratio of all rounds."""
        return (min(self.rounds), max(self.rounds)) if self.rounds else None

    @property
    def worse(self) -> bool:
        """Whether ours was worse in every round.

        By chance this is so for one in 8 of equal modules after three rounds, one in 64 after six.
        """
        if not self.spread or len(self.rounds) < ENOUGH:
            return False
        low, high = self.spread
        return high < 1 if self.more else low > 1

    def record(self) -> dict[str, object]:
        """Returns the values for the JSON file."""
        plain = {"unit": self.unit, "more_is_better": self.more, "values": self.values}
        return {**plain, "ratios": self.rounds}


class Figures:
    """All figures in the order of their first values."""

    def __init__(self) -> None:
        """Has no figure yet."""
        self._by_name: dict[str, Figure] = {}

    def note(self, name: str, unit: str, module: str, value: float, *, more: bool = False) -> None:
        """Adds the value of a round to a figure."""
        self._by_name.setdefault(name, Figure(name, unit, more)).note(module, value)

    def __iter__(self) -> Iterator[Figure]:
        """Iterates over the figures."""
        return iter(self._by_name.values())

    def records(self) -> dict[str, object]:
        """Returns the values for the JSON file."""
        return {figure.name: figure.record() for figure in self}


def table(figures: Iterable[Figure]) -> str:
    """Returns the least, median and greatest value of each module and of the ratios."""
    head = f"{'':34} {'unit':12} {'stock: min':>11} {'median':>9} {'max':>9}"
    head += f" {'ours: min':>11} {'median':>9} {'max':>9} {'ours/stock':>11} {'min-max':>10}"
    lines = [head]
    for figure in figures:
        cells = [_cells(figure.values.get(module, ())) for module in MODULES]
        lines.append(f"{figure.name:34} {figure.unit:12} {cells[0]} {cells[1]} {_verdict(figure)}")
    return "\n".join(line.rstrip() for line in lines)


def _cells(values: Sequence[float]) -> str:
    if not values:
        return f"{'-':>11} {'-':>9} {'-':>9}"
    least, most = min(values), max(values)
    return f"{_number(least):>11} {_number(statistics.median(values)):>9} {_number(most):>9}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def _verdict(figure: Figure) -> str:
    if figure.ratio is None or figure.spread is None:
        return ""
    low, high = figure.spread
    return f"{figure.ratio:>11.2f} {f'{low:.2f}-{high:.2f}':>10}" + "  worse" * figure.worse
