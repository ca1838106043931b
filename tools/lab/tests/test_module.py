# SPDX-License-Identifier: GPL-2.0
"""The copy of the sources that is built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab import module
from lab.errors import LabError


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


class FakeKernel:
    """A kernel whose module builds by one call of `make`."""

    flavour = "plain"

    def __init__(self, directory: Path) -> None:
        """Has no compilers."""
        self.obj = directory / "plain-7.3"
        self.title, self.bootable, self.age = "a kernel", True, 0
        self.tools = SimpleNamespace(make_args=list, env=dict)


def test_unchanged_sources_are_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make runs for the first build, for a changed source, and after an interrupted build."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GDB", raising=False)
    root = _tree(tmp_path / "tree", "one", 1_000_000_000)
    (root / ".gitignore").write_text("*.ko\n*.o\n")
    monkeypatch.setattr(module.paths, "ROOT", root)
    made: list[str] = []

    def make(args: list[Any], log: Path, **_: Any) -> None:
        made.append((args[2] / "rust/a.rs").read_text())
        if made[-1] == "broken":
            raise LabError("the build failed")
        warns = "a.o: warning: objtool: f() falls through" if made[-1] == "warns" else ""
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"  LD [M]  rpcrdma.ko\n{warns}\n")
        (args[2] / "rpcrdma.o").write_text("")
        (args[2] / "rpcrdma.ko").write_text(made[-1])

    monkeypatch.setattr(module, "logged", make)
    kernel = cast(Any, FakeKernel(tmp_path))
    for text in ("one", "one", "two", "two"):
        (root / "rust/a.rs").write_text(text)
        assert module.build(kernel).rpcrdma.read_text() == text
    assert made == ["one", "two"]
    for text in ("broken", "warns"):
        (root / "rust/a.rs").write_text(text)
        for _ in range(2):
            with pytest.raises(LabError):
                module.build(kernel)
    assert made == ["one", "two", "broken", "broken", "warns", "warns"]
    # An object that was kept would not warn again.
    assert not list((tmp_path / "cache").rglob("rpcrdma.o"))
