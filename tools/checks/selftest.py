#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Tests the checks themselves, and says how many passed and which were skipped."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path


def run(folder: Path) -> bool:
    """Runs the tests in a folder; returns whether there are tests and none has failed."""
    sys.path.insert(0, str(folder))
    suite = unittest.defaultTestLoader.discover(str(folder))
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    passed = result.testsRun - failed - len(result.skipped) - len(result.expectedFailures)
    if not result.testsRun:
        print(f"there are no tests in {folder}")
        failed = 1
    print(f"tests of the checks: {passed} passed, {failed} failed")
    return passed > 0 and not failed


def main() -> int:
    """Run everything in tests/."""
    return 0 if run(Path(__file__).resolve().parent / "tests") else 1


if __name__ == "__main__":
    sys.exit(main())
