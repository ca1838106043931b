# SPDX-License-Identifier: GPL-2.0
"""A pytest plugin: failures as they happen, and two last lines for scripts."""

from __future__ import annotations

import os
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


def pytest_configure(config: Any) -> None:
    """Registers the reporter in the process that prints, where several run the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(config))


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
