# SPDX-License-Identifier: GPL-2.0
"""Tests of the table of adapters."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab import devices, profiles
from lab.errors import LabError


def test_each_place_has_its_value(source: Path) -> None:
    assert list(profiles.findings(source)) == []


def test_a_wrong_place_is_found(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = profiles.load()
    values = dict(known["mlx4"].values)
    values["max_sge_rd"] = profiles.Value(30, ("mlx4/main.c:532", "mlx4/mlx4_ib.h:69"), False)
    monkeypatch.setattr(profiles, "load", lambda: {"mlx4": replace(known["mlx4"], values=values)})
    found = list(profiles.findings(source))
    assert len(found) == 2
    assert "mlx4/main.c:532 does not report max_sge_rd" in found[0]


def test_each_profile_has_all_limits() -> None:
    for profile in profiles.load().values():
        assert set(profiles.LIMITS) <= set(profile.values)
        assert set(profile.values) <= {*profiles.LIMITS, *profiles.FACTS}
        assert "mem_mgt_extensions" in profile.values


def test_runs_are_of_known_profiles() -> None:
    assert set(profiles.runs()) <= set(profiles.load())


def test_an_unknown_profile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILE", "mlx6")
    with pytest.raises(LabError, match="PROFILE=mlx6: must be none or one of mlx5, mlx4"):
        profiles.chosen()


def test_a_profile_becomes_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILE", "qedr")
    chosen = profiles.chosen()
    assert chosen
    assert "max_send_sge=4 max_recv_sge=4" in chosen.parameters()


def test_the_page_is_that_of_the_table() -> None:
    assert devices.PAGE.read_text() == devices.page(), "run: tools/lab/python -m lab devices"
