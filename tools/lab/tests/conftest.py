# SPDX-License-Identifier: GPL-2.0
"""Fixtures of the lab's own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import paths, profiles


@pytest.fixture
def source() -> Path:
    """The source of the kernel that the profiles' places are of, if the lab has unpacked it."""
    places = f"linux-source-*-{profiles.VERSION}-*/drivers/infiniband/hw"
    found = [path for path in paths.sub("src").glob(places) if ".partial" not in str(path)]
    if not found:
        pytest.skip(f"the lab has not unpacked the source of Linux {profiles.VERSION}")
    return found[0].parents[2]
