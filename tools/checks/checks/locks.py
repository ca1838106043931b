# SPDX-License-Identifier: GPL-2.0
"""Checks that the page on locks has the locks of the module.

A lock is made by `new_spinlock!(..., "room::Type::field")` or `new_mutex!(...)`. The page has a
table of each kind, with ``Type::field`` in the first column. It shows in literal blocks which lock
is taken inside which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import rust
from .tree import Finding, Tree, line_of

NAME = "locks"

PAGE = "Documentation/locking.rst"

# The sentence before the table of each kind.
_TABLES = {"These are spinlocks:": "spinlock", "These are mutexes:": "mutex"}

_MADE = re.compile(r"(?:\b(\w+)\s*<-\s*)?\bnew_(spinlock|mutex)!\s*\(")
_STRING = re.compile(r'"([^"]*)"')
_NAME = re.compile(r"\w+::(\w+::(\w+))")
_ROW = re.compile(r"^``([A-Z]\w*::\w+)``(?:  |$)")
_NESTED = re.compile(r"^ +([A-Z]\w*::[a-z]\w*)(?:  |$)")


@dataclass(frozen=True)
class Place:
    """A kind of lock, and where its name stands."""

    kind: str
    path: str
    line: int


def _arguments(src: str, text: str, opening: int) -> str:
    """Returns what stands in the parentheses that open at `opening`."""
    depth = 0
    for mark in re.finditer(r"[()]", src[opening:]):
        depth += 1 if mark[0] == "(" else -1
        if depth == 0:
            return text[opening : opening + mark.start()]
    return ""


def _made(tree: Tree, path: str) -> tuple[dict[str, Place], list[Finding]]:
    """Returns the locks of a file by their names, and names that are not as they should be."""
    text = tree.text(path)
    src = rust.code(text)
    locks, findings = {}, []
    for match in _MADE.finditer(src):
        line = line_of(text, match.start())
        strings = _STRING.findall(_arguments(src, text, match.end() - 1))
        name = _NAME.fullmatch(strings[-1]) if strings else None
        if not name or match[1] not in (None, name[2]):
            findings.append(Finding(path, line, "a lock's name is `room::Type::field`"))
            continue
        locks[name[1]] = Place(match[2], path, line)
    return locks, findings


def _described(page: str) -> dict[str, Place]:
    """Returns the locks in the tables of the page."""
    locks, kind = {}, ""
    for number, line in enumerate(page.splitlines(), 1):
        kind = _TABLES.get(line, kind)
        if row := _ROW.match(line):
            locks[row[1]] = Place(kind, PAGE, number)
    return locks


def _check_nesting(page: str, known: dict[str, Place]) -> list[Finding]:
    """Reports locks in the literal blocks of the page that do not exist."""
    findings = []
    for number, line in enumerate(page.splitlines(), 1):
        nested = _NESTED.match(line)
        if nested and nested[1] not in known:
            findings.append(Finding(PAGE, number, f"there is no lock {nested[1]}"))
    return findings


def check(tree: Tree) -> list[Finding]:
    """Reports locks that only the module, or only the page, has."""
    if PAGE not in tree.files:
        return []
    made: dict[str, Place] = {}
    findings = []
    for path in tree.under("rust", ".rs"):
        locks, wrong = _made(tree, path)
        made |= locks
        findings += wrong
    page = tree.text(PAGE)
    described = _described(page)
    for name, lock in made.items():
        if name not in described:
            findings.append(Finding(lock.path, lock.line, f"{name} is not in {PAGE}"))
        elif described[name].kind != lock.kind:
            line = described[name].line
            findings.append(Finding(PAGE, line, f"{name} is a {lock.kind}"))
    for name, lock in described.items():
        if name not in made:
            findings.append(Finding(PAGE, lock.line, f"there is no lock {name}"))
    return findings + _check_nesting(page, made)
