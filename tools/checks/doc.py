#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Writes Documentation/ as HTML to Documentation/output, with Sphinx.

Usage: doc.py [--root DIR]

Documentation/conf.py has the settings. A warning of Sphinx makes the command fail.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

from checks import rst


def build(root: Path, stderr: int | None = None) -> int:
    """Runs Sphinx on the documents of the tree at `root`. Returns its exit status.

    Warnings go to `stderr`.
    """
    folder = root / rst.FOLDER
    output = folder / "output"
    # -E: Sphinx also reads unchanged pages again, and repeats their warnings.
    strictly = ["-q", "-E", "-W", "--keep-going"]
    command = [sys.executable, "-m", "sphinx", *strictly, "-b", "html", folder, output]
    done = subprocess.run(command, check=False, stderr=stderr)
    if done.returncode == 0:
        print(output / "index.html")
    return done.returncode


def main() -> int:
    """Builds the pages of one tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    root = parser.parse_args().root
    if importlib.util.find_spec("sphinx") is None:
        print("no Sphinx: install python3-sphinx")
        return 1
    return build(root)


if __name__ == "__main__":
    sys.exit(main())
