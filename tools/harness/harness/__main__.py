# SPDX-License-Identifier: GPL-2.0
"""``tools/harness/run``: build, list, run."""

from __future__ import annotations

import sys

from lab import deps, kernel
from lab.errors import LabError

from . import build


def main(arguments: list[str]) -> int:
    """Run one command."""
    deps.ensure()
    programs = build.build(kernel.ensure("plain"))
    for program in programs:
        status, text = build.run(program, *arguments)
        print(program.name, status)
        print(text, end="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        sys.exit(f"harness: {error}")
