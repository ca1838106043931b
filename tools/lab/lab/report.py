# SPDX-License-Identifier: GPL-2.0
"""A pytest plugin: one summary line that scripts may rely on."""

from __future__ import annotations

import os
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print `NAME: N passed, N failed`; an error in a fixture is a failure."""
    stats = terminalreporter.stats
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    passed = len(stats.get("passed", []))
    name = os.environ.get("LAB_SUITE", "lab")
    terminalreporter.write_line(f"{name}: {passed} passed, {failed} failed")
