#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the checks of the source tree, and prints their findings.

Usage: run.py [--root DIR] [CHECK ...]
       run.py [--root DIR] --shape

The script needs only Python. Without names, all checks run. Exit status 0: all passed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from checks import (
    circles,
    connection_fields,
    dead_code,
    documents,
    errors_table,
    examples,
    headers,
    layering,
    legacy,
    lock_free,
    locks,
    make_help,
    packaged,
    prose,
    shape,
    sizes,
    sysctls,
    trace_events,
    unsafe_budget,
    version,
    wire_examples,
    words,
)
from checks.tree import Tree

CHECKS = {
    module.NAME.replace(" ", "-"): module
    for module in (
        layering,
        legacy,
        circles,
        unsafe_budget,
        sizes,
        shape,
        headers,
        words,
        trace_events,
        connection_fields,
        locks,
        lock_free,
        sysctls,
        dead_code,
        make_help,
        prose,
        version,
        documents,
        packaged,
        errors_table,
        examples,
        wire_examples,
    )
}


def main() -> int:
    """Runs the checks that the command line names. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("check", nargs="*", choices=[[], *CHECKS], help="which; default: all")
    shown = "print the measurements of the crate's shape, and check nothing"
    parser.add_argument("--shape", action="store_true", help=shown)
    chosen = parser.parse_args()
    tree = Tree(chosen.root)
    if chosen.shape:
        print("\n".join(shape.table(tree)))
        return 0
    failed = 0
    names = chosen.check or list(CHECKS)
    for name in names:
        findings = sorted(CHECKS[name].check(tree))
        failed += bool(findings)
        print(f"{'FAIL' if findings else 'ok  '} {name}")
        for finding in findings:
            print(f"    {finding}")
    print(f"checks: {len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
