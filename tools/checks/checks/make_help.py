# SPDX-License-Identifier: GPL-2.0
"""`make help` tells of every target and variable that a person may use."""

from __future__ import annotations

import re

from .tree import Finding, Tree, line_of

NAME = "make help"

# Steps of other targets, not meant to be called.
INTERNAL = {"preflight", "fuzz-build"}


def _makefiles(tree: Tree) -> list[str]:
    return [f for f in tree.files if f == "Makefile" or f.endswith("/targets.mk")]


def targets(text: str) -> dict[str, int]:
    """Targets that a makefile defines as commands, and their lines."""
    found = {}
    for match in re.finditer(r"^([a-z][\w-]*(?: [a-z][\w-]*)*)\s*:(?![:=])", text, re.MULTILINE):
        for name in match[1].split():
            found[name] = line_of(text, match.start())
    return found


def check(tree: Tree) -> list[Finding]:
    """Targets without help, and help without a target."""
    findings = []
    described: set[str] = set()
    for path in _makefiles(tree):
        described |= set(re.findall(r"^## ([\w-]+):", tree.text(path), re.MULTILINE))
    defined: set[str] = set()
    for path in _makefiles(tree):
        for name, line in targets(tree.text(path)).items():
            defined.add(name)
            if name not in described | INTERNAL:
                findings.append(Finding(path, line, f"target {name} has no `## {name}: ...` line"))
    for name in sorted(described - defined):
        findings.append(Finding("Makefile", 0, f"help tells of {name}, which is no target"))
    return findings
