# SPDX-License-Identifier: GPL-2.0
"""Costs between two samples, and their ratios to those of the kernel's own module."""

from __future__ import annotations

from collections import Counter

from lab.bench import sizes
from lab.bench.figures import Figures


def _sample(operations: float, requests: float, client: int, server: int) -> sizes.Sample:
    blocks = {"client": Counter({0x10: client}), "server": Counter({0x10: server, 0x20: 5})}
    return sizes.Sample(operations, requests, 3, 7, blocks)


def test_what_a_run_costs() -> None:
    spent = _sample(9, 30, 700, 900).since(_sample(4, 10, 200, 100))
    assert (spent.operations, spent.requests, spent.regions, spent.switches) == (5, 20, 0, 0)
    assert spent.instructions == {"client": {0x10: 500}, "server": {0x10: 800, 0x20: 0}}
    assert spent.total() == 1300


def test_a_long_run_may_lack_what_a_short_one_has() -> None:
    """A block that only the short run has executed counts as well, with the other sign."""
    short, long = _sample(0, 0, 0, 0), _sample(0, 0, 100, 0)
    short.instructions["client"][0x30] = 40
    assert long.since(short).total() == 60


def test_ratios_are_of_one_round() -> None:
    """The host is slow in the second round: the ratio is that of each round nevertheless."""
    figures = Figures()
    for mode, values in (("stock", (100, 200, 110)), ("default", (90, 160, 88))):
        for value in values:
            figures.note("untar, instructions", "instructions", mode, value)
    _, first, last = sizes.table(figures).splitlines()
    assert first.split()[-4:] == ["stock", "110", "1.00", "1.00-1.00"]
    assert last.split()[-4:] == ["default", "90", "0.80", "0.80-0.90"]
