# SPDX-License-Identifier: GPL-2.0
"""The copy of the sources that is built."""

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


def test_a_changed_source_is_new(tmp_path: Path) -> None:
    """Makes must see a changed source as new, even if the source is older than the last build."""
    target = tmp_path / "build"
    module.copy_sources(_tree(tmp_path / "one", "one", 2_000_000_000), target)
    assert module.copy_sources(_tree(tmp_path / "two", "two", 1_000_000_000), target)
    copied = target / "rust/a.rs"
    assert copied.read_text() == "two"
    assert copied.stat().st_mtime > 1_500_000_000
    stamp = copied.stat().st_mtime_ns
    assert not module.copy_sources(tmp_path / "two", target)
    assert copied.stat().st_mtime_ns == stamp
