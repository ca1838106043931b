# SPDX-License-Identifier: GPL-2.0
"""What was measured: figures by module, their ratio, and the table of all."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

STOCK, OURS = MODULES = ("stock", "ours")
#: Rounds without which there is no verdict.
ENOUGH = 3


@dataclass
class Figure:
    """One thing measured: once in every round with each module."""

    name: str
    unit: str
    #: Whether more is better: IOPS are, instructions are not.
    more: bool
    values: dict[str, list[float]] = field(default_factory=dict)

    def note(self, module: str, value: float) -> None:
        """Add what a round has given."""
        self.values.setdefault(module, []).append(value)

    def median(self, module: str) -> float | None:
        """None if the module was not measured."""
        values = self.values.get(module)
        return statistics.median(values) if values else None

    @property
    def rounds(self) -> list[float]:
        """Ours to stock in each round."""
        pairs = zip(self.values.get(STOCK, ()), self.values.get(OURS, ()), strict=False)
        return [ours / stock for stock, ours in pairs if stock]

    @property
    def ratio(self) -> float | None:
        """Ours to stock: the median of the rounds; None if there are not both."""
        return statistics.median(self.rounds) if self.rounds else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The ratio in the round in which it was least, and in that in which it was most."""
        return (min(self.rounds), max(self.rounds)) if self.rounds else None

    @property
    def worse(self) -> bool:
        """Ours was the worse one in every round.

        Of equals, too, one in 8 is after three rounds if chance decides, one in 64 after six.
        """
        if not self.spread or len(self.rounds) < ENOUGH:
            return False
        low, high = self.spread
        return high < 1 if self.more else low > 1

    def record(self) -> dict[str, object]:
        """For the machine-readable results."""
        plain = {"unit": self.unit, "more_is_better": self.more, "values": self.values}
        return {**plain, "ratios": self.rounds}


class Figures:
    """All of them, in the order in which they came up."""

    def __init__(self) -> None:
        """None yet."""
        self._by_name: dict[str, Figure] = {}

    def note(self, name: str, unit: str, module: str, value: float, *, more: bool = False) -> None:
        """What one round has given."""
        self._by_name.setdefault(name, Figure(name, unit, more)).note(module, value)

    def __iter__(self) -> Iterator[Figure]:
        """The figures."""
        return iter(self._by_name.values())

    def records(self) -> dict[str, object]:
        """For the machine-readable results."""
        return {figure.name: figure.record() for figure in self}


def table(figures: Iterable[Figure]) -> str:
    """Least, median and most of each module, and of the ratios of all rounds."""
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
