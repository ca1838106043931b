# SPDX-License-Identifier: GPL-2.0
"""KUnit: the cases that sources declare, and the results that a console shows.

The kernel's own parser reads the results.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import LabError

#: A module of KUnit cases as rustfmt prints it: the closing brace stands where `mod` does.
_SUITE = re.compile(
    r"^( *)#\[(?:[\w:]+::)?kunit_tests\((\w+)\)\]\n"
    r"(?:\1#.*\n)*\1(?:pub(?:\(\w+\))? )?mod \w+ \{\n(.*?)^\1\}$",
    re.MULTILINE | re.DOTALL,
)
_CASE = re.compile(r"^ *#\[test\]\n(?: *#.*\n)* *fn (\w+)\(", re.MULTILINE)
#: A table of cases that is no KUnit suite, and the first field of a row: the name of the case.
_TABLE = re.compile(r"^ *const CASES: \[Case; (\d+)\] = \[\n(.*?)^ *\];$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r'^ *\("(\w+)", [\w:]+\),$', re.MULTILINE)
#: The name that the kernel's parser gives to the cases outside of all suites.
TOP = "KUnit Test Group"

#: Names of the cases of each suite.
Suites = dict[str, set[str]]


@dataclass(frozen=True)
class Results:
    """How many cases ran, how they ended, and which of them passed."""

    passed: int
    failed: int
    skipped: int
    text: str
    suites: Suites


def declared(sources: Path) -> Suites:
    """Returns the suites and cases that the Rust sources below a directory declare.

    # Errors
    `LabError` when a suite is not of the form that this function reads, has no case, or has the
    name of another suite.
    """
    found: Suites = {}
    for path in sorted(sources.rglob("*.rs")):
        text = path.read_text()
        suites = [(match[2], set(_CASE.findall(match[3]))) for match in _SUITE.finditer(text)]
        if len(suites) != text.count("kunit_tests("):
            raise LabError(f"{path}: a KUnit suite that the lab cannot read")
        for name, cases in suites:
            if not cases or name in found:
                raise LabError(f"{path}: suite {name} has no case, or exists twice")
            found[name] = cases
    return found


def in_table(source: Path) -> Suites:
    """Returns the cases that the table `CASES` of a Rust source names, as cases outside of suites.

    # Errors
    `LabError` without such a table, or when the table declares another number of cases.
    """
    table = _TABLE.search(source.read_text())
    cases = set(_ROW.findall(table[2])) if table else set()
    if not table or not cases or len(cases) != int(table[1]):
        raise LabError(f"{source}: a table of cases that the lab cannot read")
    return {TOP: cases}


def parse(kernel_source: Path, console: str) -> Results:
    """Runs `kunit.py parse` of the kernel's source over a console text.

    # Errors
    `LabError` when the console holds no KTAP at all.
    """
    tool = kernel_source / "tools/testing/kunit/kunit.py"
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        args = [sys.executable, str(tool), "parse", f"--json={report.name}"]
        done = subprocess.run(args, input=console, capture_output=True, text=True, timeout=60)
        known = report.read()
    text = done.stdout + done.stderr
    group = json.loads(known) if known else {"misc": {"tests": 0}}
    counts = group["misc"]
    if not counts["tests"]:
        raise LabError(f"no KUnit results in the console:\n{text[-1500:]}")
    bad = counts["failed"] + counts["crashed"] + counts["errors"]
    return Results(counts["passed"], bad, counts["skipped"], text, _passed(group))


def _passed(group: dict[str, Any]) -> Suites:
    """Returns the cases of a group and of the groups below it that have passed."""
    passed = {case["name"] for case in group["test_cases"] if case["status"] == "PASS"}
    suites = {group["name"]: passed} if passed else {}
    for below in group["sub_groups"]:
        suites |= _passed(below)
    return suites
