# SPDX-License-Identifier: GPL-2.0
"""Copying the sources to where they are built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab import module


def _tree(path: Path, text: str, age: float) -> Path:
    (path / "rust").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", path], check=True)
    source = path / "rust/a.rs"
    source.write_text(text)
    os.utime(source, (age, age))
    return path


def test_what_differs_is_new(tmp_path: Path) -> None:
    """A source is new to make if it is another one, even if it is older than the last build."""
    target = tmp_path / "build"
    module.copy_sources(_tree(tmp_path / "one", "one", 2_000_000_000), target)
    module.copy_sources(_tree(tmp_path / "two", "two", 1_000_000_000), target)
    copied = target / "rust/a.rs"
    assert copied.read_text() == "two"
    assert copied.stat().st_mtime > 1_500_000_000
    stamp = copied.stat().st_mtime_ns
    module.copy_sources(tmp_path / "two", target)
    assert copied.stat().st_mtime_ns == stamp
