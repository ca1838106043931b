# SPDX-License-Identifier: GPL-2.0
"""Checks that RFC 5666 stays behind its doors: only a few files outside its folders mention it.

`RPCRDMA_LEGACY=n` leaves these folders out of the module. A mention is the number of the RFC or the
word legacy, in code or in a comment. The declaration of a module, the attribute that leaves an item
out and the mark of a requirement do not count.
"""

from __future__ import annotations

import re

from .tree import Finding, Tree

NAME = "legacy"

# The files that may mention it. There are at most four, and the list may only shrink.
DOORS = ("rust/client.rs", "rust/server.rs", "rust/proto.rs")

# The folders and modules of RFC 5666 itself, the message formats of every RFC, and tests.
_OWN = re.compile(r"/legacy(?:/|\.rs$)|^rust/wire[/.]|/cases(?:/|\.rs$)|^rust/kunit\.rs$")
_MENTION = re.compile(r"5666|legacy", re.IGNORECASE)
_NO_MENTION = re.compile(
    r"//[=~] \S+ .*"
    r"|\s*#\[cfg\(.*\bRPCRDMA_LEGACY\b.*\)\]"
    r"|\s*(?:pub(?:\([^)]*\))? )?(?:mod legacy|use legacy::\*);"
)


def check(tree: Tree) -> list[Finding]:
    """Reports files that mention RFC 5666 and are no door, and doors that do not mention it."""
    findings = []
    mentioned = set()
    for path in tree.under("rust", ".rs"):
        if _OWN.search(path):
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if _MENTION.search(line) and not _NO_MENTION.fullmatch(line.strip()):
                mentioned.add(path)
                if path not in DOORS:
                    findings.append(Finding(path, number, "mentions RFC 5666, but is no door"))
    for door in DOORS:
        if door in tree.files and door not in mentioned:
            findings.append(Finding(door, 0, "is no door any more: take it off the list"))
    return findings
