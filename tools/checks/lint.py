#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rustfmt, ruff and shellcheck on the tree, and checks the documents.

Usage: lint.py [--root DIR]

A linter that is not installed fails, with the name of its package.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from checks import rst
from checks.tree import Tree

# The format of all Rust sources. Editors also find this file.
RUSTFMT = ["--config-path", str(Path(__file__).resolve().parents[2] / "rustfmt.toml")]


def _run(command: list[str], tree: Tree) -> str:
    """Runs a linter. Returns its messages, or an empty string if it succeeds."""
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or "failed"


def rustfmt(tree: Tree) -> str:
    """Checks the format of all Rust sources."""
    tool = os.environ.get("RUSTFMT") or shutil.which("rustfmt")
    if not tool:
        return "no rustfmt: install rustfmt (Debian 12: rustfmt-web)"
    said = _run([tool, *RUSTFMT, "--check", "-l", *tree.matching("*.rs")], tree)
    return "\n".join(sorted(set(said.splitlines())))


def _ruff() -> str | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    installed = [str(path) for path in sorted(cache.glob("rpcrdma-lab/venv-*/bin/ruff"))]
    return os.environ.get("RUFF") or shutil.which("ruff") or next(reversed(installed), None)


def ruff(tree: Tree) -> str:
    """Checks all Python sources: lint and format."""
    tool = _ruff()
    if not tool:
        return "no ruff: make lab-deps installs it"
    files = tree.matching("*.py")
    brief = ["--no-cache", "--output-format=concise"]
    commands = (["check", "-q", *brief], ["format", "-q", "--check", *brief])
    return "\n".join(filter(None, (_run([tool, *c, *files], tree) for c in commands)))


def shellcheck(tree: Tree) -> str:
    """Checks all shell scripts, with any name."""
    tool = shutil.which("shellcheck")
    if not tool:
        return "no shellcheck: install shellcheck"
    scripts = [f for f in tree.files if tree.text(f).startswith(("#!/bin/sh", "#!/bin/bash"))]
    return _run([tool, "--severity=warning", *scripts], tree) if scripts else ""


def documents(tree: Tree) -> str:
    """Checks all of Documentation/ with rst.py."""
    try:
        return "\n".join(map(str, rst.check(tree)))
    except ImportError:
        return "no docutils: install python3-docutils"


LINTERS: tuple[Callable[[Tree], str], ...] = (rustfmt, ruff, shellcheck, documents)


def main() -> int:
    """Runs all linters. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    tree = Tree(parser.parse_args().root)
    failed = 0
    for linter in LINTERS:
        said = linter(tree)
        failed += bool(said)
        print(f"{'FAIL' if said else 'ok  '} {linter.__name__}")
        for line in said.splitlines():
            print(f"    {line}")
    print(f"linters: {len(LINTERS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
