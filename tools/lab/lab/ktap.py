# SPDX-License-Identifier: GPL-2.0
"""KUnit results from a console, read by the kernel's own parser."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError


@dataclass(frozen=True)
class Results:
    """How many cases ran and how they ended."""

    passed: int
    failed: int
    skipped: int
    text: str


def parse(kernel_source: Path, console: str) -> Results:
    """Run `kunit.py parse` of the kernel's source over a console text.

    # Errors
    `LabError` when the console holds no KTAP at all.
    """
    tool = kernel_source / "tools/testing/kunit/kunit.py"
    args = [sys.executable, str(tool), "parse"]
    done = subprocess.run(args, input=console, capture_output=True, text=True, timeout=60)
    text = done.stdout + done.stderr
    summary = re.search(r"Testing complete\. Ran (\d+) tests?: (.*)", text)
    if not summary or summary[1] == "0":
        raise LabError(f"no KUnit results in the console:\n{text[-1500:]}")
    counts = {name: int(n) for name, n in re.findall(r"(\w+): (\d+)", summary[2])}
    bad = counts.get("failed", 0) + counts.get("crashed", 0) + counts.get("errors", 0)
    return Results(counts.get("passed", 0), bad, counts.get("skipped", 0), text)
