#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Instructions per codec operation, by callgrind: exact, and the same on every run.

Each operation runs LOW and HIGH times; the difference, less that of doing nothing, is its cost.
Goals are those of the project: decode of an inline header in under 60 instructions, of one with a
single chunk under 150. Exits 1 if one is missed.
"""

import os
import re
import subprocess
import sys

LOW, HIGH = 100, 300
SHAPES = {"decode inline": 60, "decode one read chunk": 150, "decode reply chunk": 150}
GOALS = {f"{version} {shape}": goal for version in ("v1", "v2") for shape, goal in SHAPES.items()}


def collected(program: str, operation: str, count: int) -> int:
    """Instructions of the whole program."""
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
    """Instructions of one operation, the loop around it included."""
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
