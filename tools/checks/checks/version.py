# SPDX-License-Identifier: GPL-2.0
"""Checks that every place that names the version agrees with the file VERSION."""

from __future__ import annotations

import re

from .tree import Finding, Tree, line_of

NAME = "version"

SOURCE = "VERSION"

# The pattern of the line that names the version, by file.
PLACES: dict[str, str] = {
    "dkms.conf": r'^PACKAGE_VERSION="(.*)"$',
    "debian/changelog": r"^rpcrdma \((.*?)\)",
    "CHANGELOG.md": r"^## (\d\S*)",
    "tools/host/Cargo.toml": r'^version = "(.*)"$',
    "tools/bench/Cargo.toml": r'^version = "(.*)"$',
    "tools/fuzz/Cargo.toml": r'^version = "(.*)"$',
    "tools/host/Cargo.lock": r'^name = "rpcrdma-proto"\nversion = "(.*)"$',
    "tools/bench/Cargo.lock": r'^name = "rpcrdma-bench"\nversion = "(.*)"$',
    "tools/fuzz/Cargo.lock": r'^name = "rpcrdma-fuzz"\nversion = "(.*)"$',
}

# Parts of Kbuild that link the version into the module, where modinfo finds it.
KBUILD = ("rpcrdma_version.c: $(src)/VERSION", " rpcrdma_version.o")


def _check_place(tree: Tree, path: str, pattern: str, version: str) -> list[Finding]:
    """Compares the first match of `pattern` in a file with `version`."""
    text = tree.text(path) if path in tree.files else ""
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        return [Finding(path, 0, f"names no version; {SOURCE} has {version}")]
    if match[1] == version:
        return []
    line = line_of(text, match.start(1))
    return [Finding(path, line, f"has version {match[1]}; {SOURCE} has {version}")]


def check(tree: Tree) -> list[Finding]:
    """Reports every place that names no version, or a version other than that of VERSION."""
    text = tree.text(SOURCE) if SOURCE in tree.files else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+\n", text):
        return [Finding(SOURCE, 1, "must be one line such as 1.2.3")]
    findings = []
    for path, pattern in PLACES.items():
        findings += _check_place(tree, path, pattern, text.strip())
    kbuild = tree.text("Kbuild") if "Kbuild" in tree.files else ""
    missing = [Finding("Kbuild", 0, f"lacks `{part.strip()}`") for part in KBUILD]
    return findings + [f for f, part in zip(missing, KBUILD, strict=True) if part not in kbuild]
