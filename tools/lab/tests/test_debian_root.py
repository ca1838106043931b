# SPDX-License-Identifier: GPL-2.0
"""Which kernel of which suite a Debian machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import aptstate, debian, debian_root
from lab.errors import LabError

VERSIONS = [
    ("linux-headers-7.3.4+deb13-amd64", "7.3.4-1~bpo13+1"),
    ("linux-headers-7.2.9+deb13-amd64", "7.2.9-1~bpo13+1"),
    ("linux-headers-7.2.12+deb13-amd64", "7.2.12-1~bpo13+1"),
    ("linux-headers-7.1.13+deb13-amd64", "7.1.13-1~bpo13+1"),
]


class _State:
    def versions(self, _: str) -> list[tuple[str, str]]:
        """Returns the versions in the archive."""
        return VERSIONS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The suites whose kernels were asked for."""
    suites: list[str] = []

    def open_suite(_: object, suite: str, __: Path) -> _State:
        suites.append(suite)
        return _State()

    monkeypatch.setattr(aptstate, "open_suite", open_suite)
    monkeypatch.setattr(debian, "mirror", lambda: None)
    for name in ("SERIES", "SUITE"):
        monkeypatch.delenv(name, raising=False)
    return suites


def test_newest_kernel(asked: list[str]) -> None:
    release, version = debian_root.newest_kernel(Path("log"))
    assert (release, version) == ("7.3.4+deb13-amd64", "7.3.4-1~bpo13+1")
    assert asked == ["trixie-backports"]


def test_kernel_of_a_series(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERIES", "7.2")
    monkeypatch.setenv("SUITE", "forky")
    assert debian_root.newest_kernel(Path("log"))[0] == "7.2.12+deb13-amd64"
    assert asked == ["forky"]


def test_series_that_is_too_old(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    del asked
    monkeypatch.setenv("SERIES", "7.1")
    with pytest.raises(LabError, match="no kernel of series"):
        debian_root.newest_kernel(Path("log"))
