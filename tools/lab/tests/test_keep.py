# SPDX-License-Identifier: GPL-2.0
"""`KEEP=1`: when the user gets the guests of a failed scenario."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab import harness, terminal
from lab.harness import Lab, Options, Scenario
from lab.pair import Pair

WARNING = "[    9.0] WARNING: net/sunrpc/xprt.c:1 at xprt_release+0x1\n"


class FakePair:
    """A pair that notes the order of what is done to it."""

    def __init__(self, directory: Path, console: str) -> None:
        """`console`: that of either guest."""
        self.done: list[str] = []
        self.alive, self.directory, self.pcaps = True, directory, list[Path]()
        self.relay, self.starved, self.mounts = None, False, 0
        self.setup = SimpleNamespace(link="rxe", dma="none")
        self.client = self._guest("client", console)
        self.server = self._guest("server", "")
        self.guests = [self.server, self.client]

    def _guest(self, name: str, console: str) -> Any:
        def sh(command: str, **_: Any) -> None:
            self.done.append(command.split(maxsplit=1)[0])

        return SimpleNamespace(name=name, console=lambda: console, sh=sh)

    def end_capture(self) -> None:
        """Does nothing."""

    def stop(self) -> None:
        """Notes the end of the guests."""
        self.done.append("stop")


def _end(
    monkeypatch: pytest.MonkeyPatch, directory: Path, *, failed: bool, console: str = ""
) -> list[str]:
    """Ends a scenario; returns what was done in order."""
    pair = FakePair(directory, console)
    monkeypatch.setattr(terminal, "talk", lambda *_, **__: pair.done.append("shell"))
    monkeypatch.setattr(harness, "wire_faults", lambda *_, **__: [])
    lab = Lab(cast(Any, None), cast(Any, None), directory)
    lab._pair = cast(Pair, pair)
    lab.scenario = Scenario("test_x", Options(), {}, directory / "01.pcap", 0)
    lab.end(failed=failed)
    return pair.done


def test_shell_of_a_failed_scenario(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The shell comes before the mounts are gone."""
    monkeypatch.setenv("KEEP", "1")
    assert _end(monkeypatch, tmp_path, failed=True) == ["shell", "umount", "stop"]


def test_shell_after_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The lab finds a report after it has unmounted; the guests still run then."""
    monkeypatch.setenv("KEEP", "1")
    done = _end(monkeypatch, tmp_path, failed=False, console=WARNING)
    assert done == ["umount", "shell", "stop"]


def test_no_shell_after_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEEP", "1")
    assert _end(monkeypatch, tmp_path, failed=False) == ["umount"]


def test_no_shell_without_keep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KEEP", raising=False)
    assert _end(monkeypatch, tmp_path, failed=True) == ["umount", "stop"]
