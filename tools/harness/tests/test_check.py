# SPDX-License-Identifier: GPL-2.0
"""``tools/harness/run check`` with made-up outcomes of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.errors import LabError

from harness import __main__ as driver
from harness import build

PROGRAM = build.Program("ours", Path("ours"), Path("rpcrdma.o"), (), "some compiler")
GOOD = {"list": (0, "one\ntwo\n"), "run": (0, ""), "explore": (0, "ok   read: 2 steps\n")}


def _checked(
    monkeypatch: pytest.MonkeyPatch, seconds: int = 0, **outcomes: tuple[int, str]
) -> bool:
    told = {**GOOD, **outcomes}
    monkeypatch.setattr(build, "run", lambda _program, command, *_: told[command])
    return driver._check(PROGRAM, seconds, 1)


def test_all_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _checked(monkeypatch)


@pytest.mark.parametrize("listed", [(0, ""), (0, "\n"), (1, "one\n"), (-6, "")])
def test_program_without_a_list(monkeypatch: pytest.MonkeyPatch, listed: tuple[int, str]) -> None:
    with pytest.raises(LabError, match="list: "):
        _checked(monkeypatch, list=listed)


def test_failed_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _checked(monkeypatch, run=(1, "a reason\n"))


@pytest.mark.parametrize("explored", [(1, "FAIL read\n"), (0, "")])
def test_orders_of_events(monkeypatch: pytest.MonkeyPatch, explored: tuple[int, str]) -> None:
    assert not _checked(monkeypatch, explore=explored)


@pytest.mark.parametrize("told", [(1, "FAIL both_read\n"), (0, "")])
def test_long_orders(monkeypatch: pytest.MonkeyPatch, told: tuple[int, str]) -> None:
    assert _checked(monkeypatch, long=told)
    assert not _checked(monkeypatch, seconds=5, long=told)
