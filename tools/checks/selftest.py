#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the tests of the checks, and prints how many passed."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path


def main() -> int:
    """Runs all tests in tests/. Returns the exit status."""
    folder = str(Path(__file__).resolve().parent / "tests")
    sys.path.insert(0, folder)
    suite = unittest.defaultTestLoader.discover(folder)
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
