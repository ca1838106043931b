# SPDX-License-Identifier: GPL-2.0
"""The lab's own quality: ruff, and host tests that need no guest."""

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
    config = ["--config", str(paths.LAB / "pyproject.toml"), "--no-cache"]
    for args in (["check", *config], ["format", "--check", *config]):
        status = subprocess.run([str(ruff), *args, "-q", str(paths.LAB)]).returncode
        if status:
            return status
    return check.pytest(["-q", str(paths.LAB / "tests")], "lab's own tests")
