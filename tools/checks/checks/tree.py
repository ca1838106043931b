# SPDX-License-Identifier: GPL-2.0
"""The tree under check: its files, and what a check finds in them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

# Where the tree is no git checkout: what builds and test runs leave behind.
_LEFT_BEHIND = {".git", ".cache", "target", "__pycache__", ".ruff_cache", ".tmp_versions"}


@dataclass(frozen=True, order=True)
class Finding:
    """Something wrong, at a line of a file (0: the file as a whole)."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        """As compilers print it."""
        return f"{self.path}:{self.line}: {self.message}"


class Tree:
    """A source tree. Files are named by their paths relative to its root."""

    def __init__(self, root: Path) -> None:
        """Open the tree at `root`."""
        self.root = root

    @cached_property
    def files(self) -> list[str]:
        """All files that git tracks or would track; without git, all but build products."""
        listed = self._git() if (self.root / ".git").exists() else self._walk()
        return sorted(f for f in listed if (self.root / f).is_file())

    def _git(self) -> list[str]:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True)
        return [name for name in done.stdout.split("\0") if name]

    def _walk(self) -> list[str]:
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in _LEFT_BEHIND]
            found += [str((Path(folder) / name).relative_to(self.root)) for name in names]
        return found

    def matching(self, *patterns: str) -> list[str]:
        """Files whose path matches one of the patterns (`*` does not cross a folder)."""
        return [f for f in self.files if any(Path(f).match(p) for p in patterns)]

    def under(self, folder: str, suffix: str = "") -> list[str]:
        """Files below a folder whose names end in `suffix`."""
        prefix = folder.rstrip("/") + "/"
        return [f for f in self.files if f.startswith(prefix) and f.endswith(suffix)]

    @cache  # noqa: B019 - one tree a run
    def text(self, path: str) -> str:
        """Text of a file; empty if it is not text."""
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return ""


def line_of(text: str, offset: int) -> int:
    """Line number of an offset, from one."""
    return text.count("\n", 0, offset) + 1
