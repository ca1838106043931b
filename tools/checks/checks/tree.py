# SPDX-License-Identifier: GPL-2.0
"""The source tree under check, and the findings of a check."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

# Folders that builds and tests create. They are skipped in a tree without git.
_LEFT_BEHIND = {".git", ".cache", "target", "__pycache__", ".ruff_cache", ".tmp_versions"}


@dataclass(frozen=True, order=True)
class Finding:
    """A fault at a line of a file. Line 0 stands for the whole file."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        """Formats the finding as compilers do."""
        return f"{self.path}:{self.line}: {self.message}"


class Tree:
    """A source tree. Files are named by their paths relative to its root."""

    def __init__(self, root: Path) -> None:
        """Opens the tree at `root`."""
        self.root = root

    @cached_property
    def files(self) -> list[str]:
        """The files that git tracks or would track; without git, all but build outputs."""
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
        """Returns files whose path matches a pattern; `*` does not match a slash."""
        return [f for f in self.files if any(Path(f).match(p) for p in patterns)]

    def under(self, folder: str, suffix: str = "") -> list[str]:
        """Returns the files below a folder whose names end in `suffix`."""
        prefix = folder.rstrip("/") + "/"
        return [f for f in self.files if f.startswith(prefix) and f.endswith(suffix)]

    @cache  # noqa: B019 - there is one tree in a run
    def text(self, path: str) -> str:
        """Returns the text of a file, or an empty string if the file is not text."""
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return ""


def line_of(text: str, offset: int) -> int:
    """Returns the line number of an offset, counted from one."""
    return text.count("\n", 0, offset) + 1
