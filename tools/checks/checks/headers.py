# SPDX-License-Identifier: GPL-2.0
"""Checks that every source file begins with its licence, in the form that the kernel requires."""

from __future__ import annotations

from pathlib import PurePath

from .tree import Finding, Tree

NAME = "licence headers"

_TAG = "SPDX-License-Identifier: GPL-2.0"
_STYLES = {
    ".rs": f"// {_TAG}",
    ".c": f"// {_TAG}",
    ".h": f"/* {_TAG} */",
    ".bt": f"// {_TAG}",
    ".rst": f".. {_TAG}",
    ".lua": f"-- {_TAG}",
}
_HASH_SUFFIXES = (".py", ".sh", ".mk", ".toml", ".yml")
_HASH_NAMES = ("Makefile", "Kbuild", ".config.fragment", "run")


def _style(path: str, text: str) -> str | None:
    name = PurePath(path)
    if name.suffix in _STYLES:
        return _STYLES[name.suffix]
    hashed = name.suffix in _HASH_SUFFIXES or name.name in _HASH_NAMES or text.startswith("#!")
    return f"# {_TAG}" if hashed else None


def check(tree: Tree) -> list[Finding]:
    """Reports source files without the licence line, or with another comment style."""
    findings = []
    for path in tree.files:
        text = tree.text(path)
        style = _style(path, text)
        if style and text and not any(t.startswith(style) for t in text.splitlines()[:3]):
            findings.append(Finding(path, 1, f"must begin with `{style}`"))
    return findings
