# SPDX-License-Identifier: GPL-2.0
"""Which kernel of which suite a Debian machine has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import aptstate, arch, debian, debian_root
from lab.errors import LabError

VERSIONS = [
    ("linux-headers-7.3.4+deb13-amd64", "7.3.4-1~bpo13+1"),
    ("linux-headers-7.2.9+deb13-amd64", "7.2.9-1~bpo13+1"),
    ("linux-headers-7.2.12+deb13-amd64", "7.2.12-1~bpo13+1"),
    ("linux-headers-7.1.13+deb13-amd64", "7.1.13-1~bpo13+1"),
    ("linux-headers-7.3.4+deb13-arm64", "7.3.4-1~bpo13+1"),
    ("linux-headers-7.3.4+deb13-arm64-16k", "7.3.4-1~bpo13+1"),
]


class _State:
    def versions(self, pattern: str) -> list[tuple[str, str]]:
        """Returns the versions in the archive of the packages that match."""
        return [entry for entry in VERSIONS if re.fullmatch(pattern, entry[0])]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The suites whose kernels were asked for."""
    suites: list[str] = []

    def open_suite(_: object, suite: str, __: Path, architecture: str) -> _State:
        suites.append(f"{suite} {architecture}".strip())
        return _State()

    monkeypatch.setattr(aptstate, "open_suite", open_suite)
    monkeypatch.setattr(debian, "mirror", lambda: None)
    for name in ("SERIES", "SUITE", "ARCH", "PAGES", "SERVER_ARCH", "SERVER_PAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(arch, "host", lambda: "x86")
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


def test_newest_kernel_beside_one_of_a_series(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERIES", "7.2")
    assert debian_root.newest_kernel(Path("log"), ())[0] == "7.3.4+deb13-amd64"
    assert asked == ["trixie-backports"]


def test_series_that_is_too_old(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    del asked
    monkeypatch.setenv("SERIES", "7.1")
    with pytest.raises(LabError, match="no kernel of series"):
        debian_root.newest_kernel(Path("log"))


def test_kernel_of_another_architecture(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCH", "arm64")
    assert debian_root.newest_kernel(Path("log"))[0] == "7.3.4+deb13-arm64"
    assert asked == ["trixie-backports arm64"]


@pytest.mark.parametrize("variable", ["PAGES=64k", "SERVER_ARCH=x86"])
def test_machines_without_a_kernel_of_debian(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    name, _, value = variable.partition("=")
    monkeypatch.setenv("ARCH", "arm64")
    monkeypatch.setenv(name, value)
    with pytest.raises(LabError, match="one architecture and pages of 4 KiB"):
        debian_root.newest_kernel(Path("log"))
    assert not asked
