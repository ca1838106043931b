#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Writes the tables of errors in Documentation/admin-guide.rst from the module's sources.

Usage: errors_table.py [--root DIR]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from checks import errors_table
from checks.tree import Tree


def main() -> int:
    """Writes the page of one tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    tree = Tree(parser.parse_args().root)
    (tree.root / errors_table.PAGE).write_text(errors_table.written(tree), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
