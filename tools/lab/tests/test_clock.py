# SPDX-License-Identifier: GPL-2.0
"""A guest whose kernel has measured its clock wrongly is booted again."""

from lab.vm import runs_fast


def test_clock() -> None:
    """The guest's time may differ by what lies between two looks, and not by a factor."""
    assert runs_fast(5.0, 6.0) == runs_fast(7.5, 6.0) == ""
    assert runs_fast(120.0, 6.2) == "its clock runs too fast: 120 s in 6 s"
