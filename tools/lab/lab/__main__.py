# SPDX-License-Identifier: GPL-2.0
"""``python3 -m lab COMMAND``: the command behind the Makefile's lab targets."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
