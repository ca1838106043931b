# SPDX-License-Identifier: GPL-2.0
"""Prints the build tree of a lab kernel, and builds the kernel if necessary.

For `make KDIR=$(tools/lab/python -m lab kdir)`: progress goes to standard error, and the path alone
to standard output.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from . import deps, kernel, settings


def main(arguments: Sequence[str]) -> int:
    """``lab kdir [--kernel plain|debug]``."""
    parser = argparse.ArgumentParser(prog="lab kdir", description=__doc__)
    parser.add_argument("--kernel", default=settings.flavour(), choices=("plain", "debug"))
    args = parser.parse_args(arguments)
    with redirect_stdout(sys.stderr):
        deps.ensure()
        built = kernel.ensure(args.kernel)
    print(built.obj)
    return 0
