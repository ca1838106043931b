# SPDX-License-Identifier: GPL-2.0
"""The durations that a run of pytest leaves in its directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import paths

TESTS = """
import os, time
import pytest

@pytest.fixture
def slow():
    time.sleep(0.2)
    yield
    time.sleep(0.1)

def test_slow(slow):
    time.sleep(0.3)

@pytest.mark.xdist_group("kind-1")
@pytest.mark.skipif(True, reason="never runs")
def test_skipped():
    pass

@pytest.mark.parametrize("case", ["fails"])
def test_case(case):
    assert not case
"""

DIES = """
def test_dies():
    os._exit(1)
"""


def _durations(directory: Path, tests: str, *arguments: str) -> dict[str, list[str]]:
    """Runs the tests with the plugin; returns the columns of the file by the names of tests."""
    (directory / "test_x.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "lab.report", "-p", "no:cacheprovider"]
    command += [f"--rootdir={directory}", *arguments, str(directory)]
    env = {**os.environ, "PYTHONPATH": str(paths.LAB), "LAB_RUN": str(directory)}
    subprocess.run(command, env=env, capture_output=True, cwd=directory)
    first, *lines = (directory / "durations.tsv").read_text().splitlines()
    assert first.split("\t") == ["test", "setup", "call", "teardown"]
    rows = [line.split("\t") for line in lines]
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("pairs", ["0", "2"])
def test_durations(tmp_path: Path, pairs: str) -> None:
    """Every test has a line, whichever process has run it and however it has ended."""
    found = _durations(tmp_path, TESTS, "-n", pairs, "--dist", "loadgroup")
    assert sorted(found) == [
        "test_x.py::test_case[fails]",
        "test_x.py::test_skipped",
        "test_x.py::test_slow",
    ]
    setup, call, teardown = map(float, found["test_x.py::test_slow"])
    assert setup >= 0.2 and call >= 0.3 and teardown >= 0.1
    assert found["test_x.py::test_skipped"][1] == "-"


def test_a_process_that_died(tmp_path: Path) -> None:
    """A test whose process has died has a line with what is known."""
    found = _durations(tmp_path, TESTS + DIES, "-n", "1")
    assert len(found) == 4
    assert found["test_x.py::test_dies"][1:] == ["-", "-"]
