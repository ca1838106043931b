# SPDX-License-Identifier: GPL-2.0
"""Checks the lab itself: ruff, and host tests that need no guest."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence

from . import check, deps, paths


def main(arguments: Sequence[str]) -> int:
    """``lab lint``."""
    argparse.ArgumentParser(prog="lab lint", description=__doc__).parse_args(arguments)
    deps.install_packages()
    ruff = deps.install_venv() / "bin/ruff"
    # The patterns in pyproject.toml are relative to the lab's own folder.
    for args in (["check"], ["format", "--check"]):
        command = [str(ruff), *args, "--no-cache", "-q", "."]
        status = subprocess.run(command, cwd=paths.LAB).returncode
        if status:
            return status
    return check.pytest(["-q", str(paths.LAB / "tests")], "lab's own tests")
