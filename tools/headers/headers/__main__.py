# SPDX-License-Identifier: GPL-2.0
"""Runs ``prepare-headers`` as ``python3 -m headers``."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
