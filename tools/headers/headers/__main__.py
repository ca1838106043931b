# SPDX-License-Identifier: GPL-2.0
"""``python3 -m headers`` is ``prepare-headers``."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
