# SPDX-License-Identifier: GPL-2.0
"""Tests the comparison of figures, and the parser of callgrind's dumps."""

from __future__ import annotations

from pathlib import Path

from harness.callgrind import Function
from harness.figures import Figure, Table
from harness.goals import CROWDED, GOALS, OWED, Goal, Measured

from harness import callgrind, figures, goals


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


def _measured(**changes: Measured) -> dict[str, Measured]:
    """Returns what just meets all goals, except for the kinds that are given."""
    met = {
        kind: Measured(OWED.get(kind, goal.ratio), goal.locks, goal.atomics, goal.allocations)
        for kind, goal in GOALS.items()
    }
    return {**met, **changes}


def _check(tmp_path: Path, measured: dict[str, Measured]) -> bool:
    """Compares figures that have not grown with the goals."""
    path = tmp_path / "figures.tsv"
    figures.write({"read_4k": _figure(1000)}, "compiler", path)
    return figures.check("compiler", Table({"read_4k": _figure(1000)}, measured), path)


def test_goals_that_are_just_met_pass(tmp_path: Path) -> None:
    assert _check(tmp_path, _measured())


def test_missed_goal_fails_although_no_figure_has_grown(tmp_path: Path) -> None:
    assert not _check(tmp_path, _measured(read_4k=Measured(0.901, 6, 0, 0)))


def test_missed_goal_fails_with_its_number() -> None:
    goal = Goal(0.90, locks=6, atomics=0, allocations=0)
    found = goals.missed({"read": Measured(0.911, 7, 1, 2)}, {"read": goal})
    assert found == [
        "read: 0.911 of the kernel's module; goal: 0.90",
        "read: 7 locks; goal: 6",
        "read: 1 atomics; goal: 0",
        "read: 2 allocations; goal: 0",
    ]


def test_owed_kind_fails_when_it_grows_and_when_it_reaches_its_goal() -> None:
    goal = {"read": Goal(0.90, locks=6, atomics=0)}
    grown = goals.missed({"read": Measured(0.96, 6, 0, 0)}, goal, {"read": 0.95})
    assert grown == ["read: 0.960 of the kernel's module; goal: 0.95"]
    assert not goals.missed({"read": Measured(0.95, 6, 0, 0)}, goal, {"read": 0.95})
    reached = goals.missed({"read": Measured(0.90, 6, 0, 0)}, goal, {"read": 0.95})
    assert reached == ["read: reaches its goal of 0.90: take it out of OWED"]


def test_owed_kinds_have_a_goal_below() -> None:
    assert all(ratio > GOALS[kind].ratio for kind, ratio in OWED.items())


def test_calls_in_flight_may_cost_a_twentieth_more() -> None:
    ((kind, (alone, most)),) = CROWDED.items()
    assert most == 1.05
    assert not goals.crowded({kind: 1050, alone: 1000})
    assert goals.crowded({kind: 1051, alone: 1000}) == [f"{kind}: 1.051 of {alone}; goal: 1.05"]
    # A part of the kinds may have been measured.
    assert not goals.crowded({kind: 1051})


def test_goal_of_a_kind_that_was_not_measured_is_missed(tmp_path: Path) -> None:
    measured = _measured()
    del measured["inline"]
    assert goals.missed(measured) == ["inline: has a goal, but was not measured"]
    assert not _check(tmp_path, measured)


def test_goals_without_the_kernels_module_are_not_compared(tmp_path: Path) -> None:
    assert _check(tmp_path, {})


def _check_other_compiler(tmp_path: Path, measured: dict[str, Measured]) -> bool:
    """The same, with figures that have doubled since the file was written, of another compiler."""
    path = tmp_path / "figures.tsv"
    figures.write({"read_4k": _figure(1000)}, "compiler", path)
    return figures.check("another", Table({"read_4k": _figure(2000)}, measured), path)


def test_goals_apply_with_another_compiler(tmp_path: Path) -> None:
    goal = GOALS["inline"]
    assert _check_other_compiler(tmp_path, _measured())
    within = Measured(goal.ratio * 1.019, goal.locks, goal.atomics, goal.allocations)
    assert _check_other_compiler(tmp_path, _measured(inline=within))
    beyond = Measured(goal.ratio * 1.021, goal.locks, goal.atomics, goal.allocations)
    assert not _check_other_compiler(tmp_path, _measured(inline=beyond))
    locks = Measured(goal.ratio, goal.locks + 1, goal.atomics, goal.allocations)
    assert not _check_other_compiler(tmp_path, _measured(inline=locks))


def test_a_kind_that_is_owed_may_reach_its_goal_with_another_compiler(tmp_path: Path) -> None:
    goal = GOALS["callback"]
    reached = Measured(goal.ratio, goal.locks, goal.atomics, goal.allocations)
    assert _check_other_compiler(tmp_path, _measured(callback=reached))
    assert not _check(tmp_path, _measured(callback=reached))


def test_growth_fails_although_all_goals_are_met(tmp_path: Path) -> None:
    path = tmp_path / "figures.tsv"
    figures.write({"read_4k": _figure(1000)}, "compiler", path)
    grown = Table({"read_4k": _figure(1021)}, _measured())
    assert not figures.check("compiler", grown, path)


def test_every_kind_that_is_measured_has_a_goal() -> None:
    _, measured = figures.read()
    assert measured.keys() == GOALS.keys() | CROWDED.keys()


def test_reads_writes_and_inline_calls_cost_a_tenth_less_than_in_the_kernels_module() -> None:
    names = ("inline", "read_", "write_", "srv_getattr", "srv_read_", "srv_write_")
    fast = {kind for kind in GOALS if kind.startswith(names)} - {"read_4k_local"}
    assert len(fast) == 16
    assert max(GOALS[kind].ratio for kind in fast) == 0.90


def test_no_other_kind_costs_a_twentieth_more() -> None:
    assert max(goal.ratio for goal in GOALS.values()) == 1.05


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
