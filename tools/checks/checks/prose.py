# SPDX-License-Identifier: GPL-2.0
"""Finds phrases that are not the English of the kernel's lists, in comments and documents.

Comments and documents say in the present tense which part does what. The patterns are those that a
regular expression can find without false alarms. Where a room still has some, its limit says how
many; a limit may only fall.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .tree import Finding, Tree

NAME = "prose"

# Each pattern, with the words to use in its place. They are written so that they do not match here.
PHRASES = {
    r"\bfor eve[r]\b": "endlessly, or: without end",
    r"\bane[w]\b": "again",
    r"\bso man[y]\b(?! that\b)": "that many",
    r"\bin forc[e]\b": "effective",
    r"\bmend[s]\b": "fixes",
    r"\bha(?:s|ve) (?:led t[o]|go[t])\b": "leads to, has",
    r"\b(?:has|have) com[e]\b": "arrives, or: has arrived",
    r", to[o]\b(?! \w)": "also, or: as well",
}
# The first line of a doc comment defines the item by its kind, and not by a question.
QUESTION = re.compile(r'^\s*(?:///|//!|"""|#:) ?Wha[t]\b')
_DOC = re.compile(r"^\s*(?:///|//!|#:)")

# Rooms that still have some: files below these paths, and the number of phrases.
LIMITS: dict[str, int] = {}

# Documents that quote others, and the tests of this check.
EXCEPTIONS = ("Documentation/rfc-map.rst", "tools/checks/tests/test_prose.py")

_ALL = "|".join(f"(?P<p{n}>{pattern})" for n, pattern in enumerate(PHRASES))
_PHRASE = re.compile(_ALL, re.IGNORECASE)
_ADVICE = list(PHRASES.values())
_TEXT = (".rst", ".md", ".toml")
_C_LIKE = (".rs", ".c", ".h")
_SCRIPTS = (".py", ".sh")


@dataclass(frozen=True)
class Phrase:
    """A phrase in a file."""

    path: str
    line: int
    words: str
    advice: str


def _comment(path: str, line: str) -> str:
    """Returns the part of a line that may have phrases."""
    if path.endswith(_C_LIKE):
        found = re.search(r"//.*|/\*.*|^\s*\* .*", line)
        return found[0] if found else ""
    return line


def phrases(path: str, text: str) -> Iterator[Phrase]:
    """Yields the phrases of a file."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _PHRASE.finditer(_comment(path, line)):
            advice = _ADVICE[int(match.lastgroup[1:])] if match.lastgroup else ""
            yield Phrase(path, number, match[0], advice)
        if QUESTION.match(line) and not _DOC.match(before):
            yield Phrase(path, number, "a comment that begins with a question", "name the thing")
        before = line


def _room(path: str) -> str:
    """Returns the room with a limit to which a file belongs, or an empty string."""
    rooms = [room for room in LIMITS if path == f"{room}.rs" or path.startswith(f"{room}/")]
    return max(rooms, key=len, default="")


def check(tree: Tree) -> list[Finding]:
    """Reports each phrase of a room without a limit, and of the others all if they are too many."""
    found: dict[str, list[Phrase]] = {}
    for path in tree.files:
        if path.endswith((*_TEXT, *_C_LIKE, *_SCRIPTS)) and path not in EXCEPTIONS:
            for phrase in phrases(path, tree.text(path)):
                found.setdefault(_room(path), []).append(phrase)
    return [
        Finding(phrase.path, phrase.line, f"{phrase.words}; better: {phrase.advice}")
        for room, listed in found.items()
        if len(listed) > LIMITS.get(room, 0)
        for phrase in listed
    ]
