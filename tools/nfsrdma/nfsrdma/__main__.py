# SPDX-License-Identifier: GPL-2.0
"""Runs the command as ``python3 -m nfsrdma``."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
