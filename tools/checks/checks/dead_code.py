# SPDX-License-Identifier: GPL-2.0
"""Checks that dead code is allowed only at items that a sample needs.

The compiler names what the module does not use (`make check-clippy`). A sample may use more of a
room than the module does: such an item has `#[allow(dead_code, reason = "for the sample NAME")]`.
"""

from __future__ import annotations

import re

from . import rust
from .tree import Finding, Tree, line_of

NAME = "dead code"

# The generated bindings have thousands of items.
BINDINGS = "rust/raw.rs"

_ATTRIBUTE = re.compile(r"#(!?)\[\s*(?:allow|expect)\s*\(([^\]]*)\)\s*\]")
_DEAD = re.compile(r"\b(?:dead_code|unused(?:_\w+)?)\b")
_REASON = re.compile(r'reason\s*=\s*"for the sample (\w+)"')
# What may stand between the attribute and the name of its item.
_ITEM = re.compile(
    r"(?:\s|#\[(?:[^\[\]]|\[[^\]]*\])*\]|pub(?:\([^)]*\))?|unsafe|const|async)*"
    r"(?P<kind>fn|struct|enum|union|trait|impl(?:<[^>]*>)?|static|type|mod|use)?\s*(?P<name>\w+)"
)


def _uses(tree: Tree, sample: str, name: str) -> bool:
    """Returns whether a sample has a name in its code."""
    files = [f"samples/{sample}_main.rs", *tree.under(f"samples/{sample}", ".rs")]
    texts = [rust.code(tree.text(path)) for path in files if path in tree.files]
    return any(re.search(rf"\b{name}\b", text) for text in texts)


def _why_not(tree: Tree, path: str, match: re.Match[str]) -> str | None:
    """Returns why an attribute may not be where it is, or None if it may."""
    item = _ITEM.match(rust.code(tree.text(path)), match.end())
    if match[1] or (item and item["kind"] in ("mod", "use")):
        return "dead code is allowed for a whole module"
    reason = _REASON.search(match[2])
    if not reason:
        return 'the reason is not "for the sample NAME"'
    if not item or not _uses(tree, reason[1], item["name"]):
        return f"the sample {reason[1]} does not use {item['name'] if item else 'this'}"
    return None


def check(tree: Tree) -> list[Finding]:
    """Reports items at which dead code is allowed, and which no sample uses."""
    findings = []
    for path in tree.under("rust", ".rs"):
        text = tree.text(path)
        for match in _ATTRIBUTE.finditer(text) if path != BINDINGS else ():
            if not _DEAD.search(rust.code(text)[match.start() : match.end()]):
                continue
            if why := _why_not(tree, path, match):
                findings.append(Finding(path, line_of(text, match.start()), why))
    return findings
