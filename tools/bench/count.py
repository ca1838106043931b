#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Counts instructions per codec operation with callgrind. The counts are the same on every run.

Each operation runs LOW and HIGH times. Its cost is the difference, less that of the empty loop.
The project's goals are less than 60 instructions to decode an inline header, and less than 150 with
a single chunk. Exits 1 if a goal is missed.
"""

import os
import re
import subprocess
import sys

LOW, HIGH = 100, 300
SHAPES = {"decode inline": 60, "decode one read chunk": 150, "decode reply chunk": 150}
GOALS = {f"{version} {shape}": goal for version in ("v1", "v2") for shape, goal in SHAPES.items()}


def collected(program: str, operation: str, count: int) -> int:
    """Returns the instructions of the whole program."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=" + os.devnull,
        program,
        operation,
        str(count),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Collected\s*:\s*(\d+)", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{' '.join(command)}: {run.stderr}")
    return int(found.group(1))


def per_operation(program: str, operation: str) -> float:
    """Returns the instructions of one operation, including the loop around it."""
    return (collected(program, operation, HIGH) - collected(program, operation, LOW)) / (HIGH - LOW)


def main() -> int:
    """Prints a table."""
    program = sys.argv[1]
    listed = subprocess.run([program], capture_output=True, text=True, check=True)
    operations = listed.stdout.splitlines()
    base = per_operation(program, operations[0])
    missed = 0
    print(f"{'operation':40} {'instructions':>12} {'goal':>6}")
    for operation in operations[1:]:
        count = per_operation(program, operation) - base
        goal = GOALS.get(operation)
        late = goal is not None and count >= goal
        missed += late
        print(f"{operation:40} {count:12.0f} {goal or '':>6}{'  missed' if late else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
