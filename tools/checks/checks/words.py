# SPDX-License-Identifier: GPL-2.0
"""Finds words that the tree may not have: marks of unfinished work, panics, machine paths."""

from __future__ import annotations

import re

from . import rust
from .tree import Finding, Tree, line_of

NAME = "words"

# The patterns, by meaning. They are written so that this file does not match itself.
EVERYWHERE = {
    "a promise instead of work": r"\b(?:TO[D]O|FIX[M]E|X{3}|HA[C]K)\b",
    "unfinished code": r"\b(?:to[d]o|unimplemente[d])!\(",
    "the host of a package registry": (
        r"\b(?:crate[s]\.io|pyp[i]\.org|pythonhoste[d]\.org|rust-lan[g]\.org/dist"
        r"|npmj[s]\.com|(?:deb|security|ftp)\.debia[n]\.org|prox[y]\.golang)\b"
    ),
    "a path of one machine": r"(?<![\w.])/(?:wor[k]/|tm[p]/boot|roo[t]/|hom[e]/\w)",
}

# Rooms that may not panic: they process input from peers, or run in the kernel's callbacks.
_NO_PANIC = ("client", "server", "conn", "rdma", "sunrpc", "mem", "text", "work", "observe")
_NO_PANIC += ("wire", "proto", "compat")
_PANICS = re.compile(r"\.unwrap\(\)|\.expect\(|\b(?:panic|unreachable)!\s*[({\[]")

# Files that a tool writes. They contain the hosts of registries.
_MACHINE_MADE = (".lock",)

# Files that may have such words, with the reason.
_EXCEPTIONS: dict[tuple[str, str], str] = {
    ("tools/lab/lab/debian_root.py", "a path of one machine"): "the path is inside a chroot",
}


def _check_everywhere(path: str, text: str) -> list[Finding]:
    return [
        Finding(path, line_of(text, match.start()), f"{meaning}: {match[0]}")
        for meaning, pattern in EVERYWHERE.items()
        for match in re.finditer(pattern, text)
        if (path, meaning) not in _EXCEPTIONS
    ]


def _is_argued(text: str, offset: int) -> bool:
    """Returns whether a comment in the lines before says why this panic cannot occur."""
    return any("// PANIC:" in line for line in text[:offset].splitlines()[-5:])


def _check_panics(path: str, text: str) -> list[Finding]:
    tests = rust.test_modules(text)
    return [
        Finding(path, line_of(text, match.start()), f"may panic: {match[0]}")
        for match in _PANICS.finditer(rust.code(text))
        if not any(t.start <= match.start() <= t.end for t in tests)
        and not _is_argued(text, match.start())
    ]


def check(tree: Tree) -> list[Finding]:
    """Reports every such word."""
    findings = []
    for path in tree.files:
        if not path.endswith(_MACHINE_MADE):
            findings += _check_everywhere(path, tree.text(path))
    for room in _NO_PANIC:
        for path in [f"rust/{room}.rs", *tree.under(f"rust/{room}", ".rs")]:
            if path in tree.files:
                findings += _check_panics(path, tree.text(path))
    return findings
