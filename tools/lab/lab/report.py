# SPDX-License-Identifier: GPL-2.0
"""A pytest plugin: failures as they happen, and a summary line for scripts."""

from __future__ import annotations

import os
from typing import Any


class Report:
    """Says at once why a scenario failed; pytest itself tells only at the end."""

    def __init__(self, config: Any) -> None:
        """`config` leads to pytest's terminal writer."""
        self._config = config

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Print the last line of a failure's message, and where logs are kept."""
        if not report.failed:
            return
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash else str(report.longrepr)
        kept = [text for name, text in report.sections if name == "Captured call lab"]
        for line in [*message.splitlines()[:12], *kept]:
            terminal.write_line(f"    {line}")


def pytest_configure(config: Any) -> None:
    """Register the reporter; where several processes run the tests, in the one that tells."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(config))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print `NAME: N passed, N failed`; an error in a fixture is a failure."""
    stats = terminalreporter.stats
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    passed = len(stats.get("passed", []))
    name = os.environ.get("LAB_SUITE", "lab")
    terminalreporter.write_line(f"{name}: {passed} passed, {failed} failed")
