# SPDX-License-Identifier: GPL-2.0
"""Fixtures and rules that hold for every scenario.

A scenario gets a booted pair of guests, shared with the others where that is
safe. Whatever it asserts itself, it also fails when either kernel reported
anything meanwhile, or when the packets on the cable break a rule. Console
logs and capture of a failed scenario are kept and their place printed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from lab import kernel, paths, settings
from lab.harness import Lab, Options

#: The kind of pair that most scenarios take; it sorts before the others.
USUAL = ""


# Before xdist looks for groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run's kernel, module and thoroughness exclude."""
    keep, drop = [], []
    for item in items:
        (keep if _selected(item) else drop).append(item)
    config.hook.pytest_deselected(items=drop)
    # Scenarios with the same kind of pair follow one another: a boot costs more than most.
    items[:] = sorted(keep, key=_kind_of_pair)
    if hasattr(config, "workerinput"):
        _share(items)


def _share(items: list[pytest.Item]) -> None:
    """Where several pairs are at work: any does what asks for the usual kind."""
    kinds = [_kind_of_pair(item)[0] for item in items]
    names = {kind: f"kind-{number}" for number, kind in enumerate(dict.fromkeys(kinds))}
    for item, kind in zip(items, kinds, strict=True):
        if kind != USUAL:
            item.add_marker(pytest.mark.xdist_group(names[kind]))


def _kind_of_pair(item: pytest.Item) -> tuple[str, bool, bool]:
    """Leaks are looked for when a pair has done everything else; provoked reports end it."""
    callspec = getattr(item, "callspec", None)
    kind = repr(callspec.params["pair"]) if callspec and "pair" in callspec.params else USUAL
    # What boots another machine takes minutes to prepare it.
    kind = "machine" if "machine" in getattr(item, "fixturenames", ()) else kind
    last = item.get_closest_marker("provokes") is not None
    return kind, last, item.get_closest_marker("after_all") is not None


def _selected(item: pytest.Item) -> bool:
    def marked(name: str) -> bool:
        return item.get_closest_marker(name) is not None

    if marked("needs_ours") and settings.client() != "ours":
        return False
    if marked("rxe_only") and settings.link() != "rxe":
        return False
    debug = settings.flavour() == "debug"
    if settings.full():
        return not (debug and marked("plain_only"))
    return not marked("full") and (marked("debug_kernel") or not debug)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Kernel, modules and the pair that scenarios share."""
    built = kernel.ensure(settings.flavour())
    lab = Lab(built, paths.run_directory("check"))
    yield lab
    lab.drop()
    assert not lab.unclaimed, "\n".join(lab.unclaimed)


@pytest.fixture
def pair(lab: Lab, request: pytest.FixtureRequest) -> Any:
    """A booted pair with the client's module loaded and nothing mounted.

    `@pytest.mark.parametrize("pair", [Options(...)], indirect=True)` asks for
    another kind of pair than the shared one.
    """
    options = getattr(request, "param", None) or Options()
    return lab.begin(request.node.name, options)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """After the scenario's own asserts: what the kernels and the cable say."""
    outcome = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if lab is None or lab.scenario is None:
        return
    failed = outcome.excinfo is not None
    provoked = item.get_closest_marker("provokes") or item.get_closest_marker("after_all")
    faults = lab.end(
        failed=failed,
        expect_reports=bool(provoked),
        breaks_rules=bool(item.get_closest_marker("breaks_rules")),
    )
    if failed or faults:
        item.add_report_section("call", "lab", "\n".join([*faults, f"kept in {lab.kept}"]))
    if faults and not failed:
        # Debian 12's pluggy has no force_exception(); raising here does the same.
        raise AssertionError("\n".join(faults))
