# SPDX-License-Identifier: GPL-2.0
"""Tests of the processes that take one command a line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.told import Told


def test_a_process_ends(tmp_path: Path) -> None:
    """A command is answered while the process lives, and is an error afterwards."""
    image = tmp_path / "image"
    image.write_bytes(bytes(4096))
    told = Told("disk", tmp_path / "socket", image)
    assert told.tell("held") == "0"
    assert told.tally() == Counter()
    with pytest.raises(LabError, match="disk"):
        told.tell("cut")
    told.stop()


def test_a_process_does_not_start(tmp_path: Path) -> None:
    """Without its image the disk ends before it serves."""
    with pytest.raises(LabError, match="disk"):
        Told("disk", tmp_path / "socket", tmp_path / "missing")
