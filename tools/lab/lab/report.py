# SPDX-License-Identifier: GPL-2.0
"""A pytest plugin: failures as they happen, durations in a file, two last lines for scripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import settings


class Report:
    """Prints at once why a scenario failed; pytest itself prints that at the end only."""

    def __init__(self, config: Any) -> None:
        """`config` leads to pytest's terminal writer."""
        self._config = config

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Prints the first lines of a failure's message and the place of its logs."""
        if not report.failed:
            return
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash else str(report.longrepr)
        kept = [text for name, text in report.sections if name == "Captured call lab"]
        for line in [*message.splitlines()[:12], *kept]:
            terminal.write_line(f"    {line}")


#: The parts of a test, each of which has a duration, in their order.
PHASES = ("setup", "call", "teardown")


class Durations:
    """Writes how long each part of each test took, a line for a test when it has ended."""

    def __init__(self, path: Path) -> None:
        """`path`: the file, which gets a line with the names of its columns."""
        self._path = path
        #: The durations of tests that have not ended, by the tests' identifiers.
        self._begun: dict[str, dict[str, float]] = {}
        path.write_text("\t".join(("test", *PHASES)) + "\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Notes the duration of a part of a test."""
        # Where several processes run the tests, the name of a test's group follows.
        test = report.nodeid.partition("@")[0]
        self._begun.setdefault(test, {})[report.when] = report.duration
        if report.when == PHASES[-1]:
            self._write(test)

    def pytest_sessionfinish(self) -> None:
        """Writes the tests whose end nobody has reported, because their process has died."""
        for test in list(self._begun):
            self._write(test)

    def _write(self, test: str) -> None:
        """Writes a test's line, with a dash for each part that did not run."""
        took = self._begun.pop(test)
        shown = [f"{took[phase]:.2f}" if phase in took else "-" for phase in PHASES]
        with self._path.open("a") as out:
            out.write("\t".join((test, *shown)) + "\n")


def pytest_configure(config: Any) -> None:
    """Registers the reporters in the process that prints, where several run the tests."""
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(Report(config))
    if logs := os.environ.get("LAB_RUN"):
        config.pluginmanager.register(Durations(Path(logs) / "durations.tsv"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints `NAME: N passed, N failed`, where errors in fixtures count, and the place of logs."""
    if settings.listing():
        return
    stats = terminalreporter.stats
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    passed = len(stats.get("passed", []))
    name = os.environ.get("LAB_SUITE", "lab")
    terminalreporter.write_line(f"{name}: {passed} passed, {failed} failed")
    if logs := os.environ.get("LAB_RUN"):
        terminalreporter.write_line(f"{name}: logs: {logs}")
