# SPDX-License-Identifier: GPL-2.0
"""Tests the comparison of figures, and the parser of callgrind's dumps."""

from __future__ import annotations

from pathlib import Path

from harness.callgrind import Function
from harness.figures import Figure

from harness import callgrind, figures


def _figure(instructions: int) -> Figure:
    return Figure(instructions, 0, 1.0, 2.0, 0.0)


def test_growth_within_the_tolerance_passes() -> None:
    assert not figures.complaints({"read": _figure(1020)}, {"read": _figure(1000)})


def test_growth_beyond_the_tolerance_fails() -> None:
    found = figures.complaints({"read": _figure(1021)}, {"read": _figure(1000)})
    assert found == ["read: 1021 instructions; before: 1000"]


def test_a_kind_that_was_not_measured_is_reported() -> None:
    assert len(figures.complaints({}, {"read": _figure(1)})) == 1


def test_a_kind_that_is_not_listed_is_reported() -> None:
    assert len(figures.complaints({"read": _figure(1)}, {})) == 1


def test_written_figures_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "figures.tsv"
    wanted = {"read": Figure(10, 2, 1.5, 0.1, 0.0)}
    figures.write(wanted, "some compiler 1.2", path)
    assert figures.read(path) == ("some compiler 1.2", wanted)


class _Image:
    """An image with a function of the module, a helper, and a lock function."""

    atomics = frozenset({0x104})

    def at(self, address: int) -> Function:
        if address < 0x200:
            return Function("ours", ours=True, helper=False)
        if address < 0x300:
            return Function("rust_helper_spin_lock", ours=False, helper=True)
        return Function("_raw_spin_lock", ours=False, helper=False)


def test_positions_may_be_relative() -> None:
    dump = "fn=(1) ours\n0x100 0 3\n+4 0 3\n+4 0 5\ncfn=(2)\ncalls=3 0x200 0 \n* 0 40\n"
    dump += "\nfn=(2) helper\n0x200 0 3\ncalls=3 0x300 0\n* 0 9\n\nfn=(3)\n0x300 0 9\n"
    cost = callgrind.parse(dump, _Image())
    assert (cost.module, cost.helpers, cost.locks, cost.atomics) == (11, 3, 3, 3)
