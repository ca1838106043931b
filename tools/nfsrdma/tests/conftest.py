# SPDX-License-Identifier: GPL-2.0
"""Lets the tests import the command from this tree."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
