# SPDX-License-Identifier: GPL-2.0
"""The commands that run on the other release of Debian, their settings and sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import deps, given, image, kernel, module, other_release, paths


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own and the source of a kernel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KERNEL_SRC", str(tmp_path / "linux"))
    monkeypatch.delenv("KDIR", raising=False)
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux/Makefile").touch()


def _targets() -> set[str]:
    files = [paths.ROOT / "Makefile", *paths.ROOT.glob("tools/*/targets.mk")]
    text = "".join(file.read_text() for file in files)
    return set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))


def test_each_release_has_another() -> None:
    for release, other in other_release.OTHER.items():
        assert other != release
        assert other_release.OTHER[other] == release
        assert deps.wanted(deps.HOST_PACKAGES.read_text(), other)
    assert other_release.NAMES.keys() == other_release.OTHER.keys()


def test_what_runs_exists() -> None:
    assert set(other_release.SHORT) | {"check-fast", "lab-check"} <= _targets()
    for full in (False, True):
        fast, scenario = other_release.commands(full)
        assert ("check-fast" in fast) == full
        assert set(other_release.SHORT) <= set(fast) or full
        assert scenario[-1] == "lab-check"
        # The short form builds no kernel; the long one is there to do so.
        assert (f"LAB_GIVEN={other_release.GIVEN}" in scenario) != full


def test_the_short_form_leaves_out_what_needs_the_compilers_of_the_kernel_or_takes_long() -> None:
    lines = [line for line in _make_lines() if line.startswith("check-fast:")]
    parts = {name for line in lines for name in re.findall(r"(?<= )[a-z]+-[a-z-]+", line)}
    left_out = {"check-harness", "check-clippy", "lab-modules", "check-loom", "check-foreign"}
    assert parts - set(other_release.SHORT) == left_out


def _make_lines() -> list[str]:
    files = paths.ROOT.glob("tools/*/targets.mk")
    return [line for file in files for line in file.read_text().splitlines()]


def test_the_root_gets_no_tools_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"RUSTC": "/opt/rustc", "MAKEFLAGS": "-j9", "LAB_RUN": "/x", "ONLY": "reload"}
    for name, value in {**settings, "https_proxy": "http://proxy", "ACCEL": "tcg"}.items():
        monkeypatch.setenv(name, value)
    words = other_release.environment(CLIENT="ours")
    names = {word.partition("=")[0] for word in words}
    assert not names & settings.keys()
    assert {"https_proxy=http://proxy", "ACCEL=tcg", "CLIENT=ours"} <= set(words)


def test_folders_that_the_root_sees(tmp_path: Path) -> None:
    source = str(tmp_path / "linux")
    what = given.Given("/images/i", source, "/o", "/m", "/p")
    command = other_release.entered(Path("/r"), *what.folders())
    assert command[command.index("/r") :] == ["/r", source, "/images", "/o", "/m", "/p", "--"]


def test_another_list_of_packages_needs_another_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = other_release.directory("trixie")
    assert before == other_release.directory("trixie") != other_release.directory("bookworm")
    longer = tmp_path / "packages"
    longer.write_text(deps.HOST_PACKAGES.read_text() + "hello\n")
    monkeypatch.setattr(deps, "HOST_PACKAGES", longer)
    assert other_release.directory("trixie") != before


def test_lines_have_the_name_and_the_status_counts(
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = ["sh", "-c", "echo checks: 14 passed, 0 failed; echo bad >&2; exit 3"]
    assert other_release.run(command, "Debian 13") == 3
    said = capfd.readouterr().out.splitlines()
    assert said == ["Debian 13: checks: 14 passed, 0 failed", "Debian 13: bad"]


def test_given_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab with `LAB_GIVEN` takes image, kernel and modules from it."""
    (tmp_path / "modules/samples/one").mkdir(parents=True)
    (tmp_path / "modules/samples/one/sample.ko").touch()
    what = given.Given("/i", str(tmp_path / "linux"), "/o", str(tmp_path / "modules"), "/p")
    assert given.read() is None
    what.write(tmp_path / "given.json")
    monkeypatch.setenv("LAB_GIVEN", str(tmp_path / "given.json"))
    assert image.ensure() == Path("/i")
    kernel.ensure.cache_clear()
    try:
        found = kernel.ensure("plain")
    finally:
        kernel.ensure.cache_clear()
    assert (found.src, found.obj) == (tmp_path / "linux", Path("/o"))
    modules = module.build(found)
    assert modules.rpcrdma == tmp_path / "modules/rpcrdma.ko"
    assert module.build_provoker(found) == Path("/p/lab_provoke.ko")
    assert [sample.name for sample in modules.samples] == ["sample.ko"]
