# SPDX-License-Identifier: GPL-2.0
"""Checks of the source tree that need nothing but Python: see run.py."""
