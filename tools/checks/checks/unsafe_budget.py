# SPDX-License-Identifier: GPL-2.0
"""Checks which rooms have unsafe code, how much, and that each use has a safety argument."""

from __future__ import annotations

import re
from collections import defaultdict

from . import rust
from .layering import room_of
from .tree import Finding, Tree, line_of

NAME = "unsafe budget"

# The number of occurrences of `unsafe` that a room may have. A higher number needs a review. Rooms
# that are not listed may have none.
BUDGET: dict[str, int] = {
    "raw": 2,
    "compat": 6,
    "mem": 48,
    "work": 20,
    "rdma": 192,
    "sunrpc": 400,
    "observe": 16,
    # Registers the transports, because `client` and `server` may not contain unsafe code.
    "rpcrdma": 3,
}

_REASONED = re.compile(r"\bunsafe\s*(\{|impl\b|extern\s*\{)")
_CONTRACT = re.compile(r"\bunsafe\s+(?:extern\s+)?fn\s+(\w+)")

# A line that ends an earlier statement, or opens a block around this one.
_BOUNDARY = re.compile(
    r"^$|[;}]$|^(?:pub\b|fn|impl|unsafe|match|if|\}? ?else|for|while|loop|mod|trait).*\{$"
)


def _comment_above(lines: list[str], number: int) -> str:
    """Returns the comment before the statement of line `number`, counted from 0."""
    at = number - 1
    while at >= 0 and not lines[at].lstrip().startswith("//"):
        line = lines[at].strip()
        if _BOUNDARY.search(line) and not line.startswith("#["):
            return ""
        at -= 1
    comment = []
    while at >= 0 and lines[at].lstrip().startswith("//"):
        comment.append(lines[at])
        at -= 1
    return "".join(comment)


def _is_reasoned(text: str, offset: int) -> bool:
    """Returns whether a SAFETY comment stands before the statement or the block."""
    before = text[:offset].rsplit("\n", 1)[-1]
    return "SAFETY:" in before + _comment_above(text.splitlines(), line_of(text, offset) - 1)


def _has_contract(text: str, offset: int) -> bool:
    """Returns whether an unsafe function or its module has a section `# Safety`."""
    if re.search(r"^//! (# )?Safety\b", text, re.MULTILINE):
        return True
    lines = text.splitlines()
    at = line_of(text, offset) - 2
    while at >= 0 and re.match(r"\s*(///|//|#\[)", lines[at]):
        if re.search(r"/// # Safety|// SAFETY:", lines[at]):
            return True
        at -= 1
    return False


def _check_file(tree: Tree, path: str) -> list[Finding]:
    text = tree.text(path)
    src = rust.code(text)
    findings = []
    for match in _REASONED.finditer(src):
        if not _is_reasoned(text, match.start()):
            message = "unsafe without a SAFETY comment before it"
            findings.append(Finding(path, line_of(text, match.start()), message))
    for match in _CONTRACT.finditer(src):
        if not _has_contract(text, match.start()):
            message = f"unsafe fn {match[1]} without a section `# Safety`"
            findings.append(Finding(path, line_of(text, match.start()), message))
    return findings


def count(tree: Tree) -> dict[str, int]:
    """Counts the occurrences of `unsafe` in each room."""
    found: dict[str, int] = defaultdict(int)
    for path in _sources(tree):
        src = rust.code(tree.text(path))
        found[str(room_of(path))] += len(re.findall(r"\bunsafe\b(?!_)", src))
    return found


def _sources(tree: Tree) -> list[str]:
    generated = ("rust/raw/closure.rs", "rust/raw/bindings_generated.rs")
    return [f for f in tree.under("rust", ".rs") if f not in generated]


def check(tree: Tree) -> list[Finding]:
    """Reports unsafe code without a safety argument, or above the budget of its room."""
    findings = [f for path in _sources(tree) for f in _check_file(tree, path)]
    for room, found in sorted(count(tree).items()):
        allowed = BUDGET.get(room, 0)
        if found > allowed:
            message = f"room has {found} times `unsafe`; its budget is {allowed}"
            findings.append(Finding(f"rust/{room}.rs", 0, message))
    return findings
