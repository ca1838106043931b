# SPDX-License-Identifier: GPL-2.0
"""Checks that documents name only files, scenarios and modules that exist, in 100 columns.

The documents are Documentation/*.rst and the Markdown files. The check needs only Python. rst.py
checks the markup.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import PurePath

from .tree import Finding, Tree, line_of

NAME = "documents"

COLUMNS = 100

README = "README.md"

# Build outputs, which documents may name.
MADE = ("Documentation/output", "tools/fuzz/corpus", "build")

# Documents that a tool writes. Each tool has its own check.
GENERATED = ("Documentation/rfc-map.rst",)

_FOLDERS = r"(?:rust|tools|include/rpcrdma|include/trace|samples|Documentation|debian|build)"
_PATH = re.compile(rf"(?<![\w./-]){_FOLDERS}/[\w./*-]*[\w/*]")
_ROOMS = r"(?:wire|proto|rdma|sunrpc|observe|conn|client|server|compat|mem|text|work)"
_SCENARIO = re.compile(r"(tools/lab/scenarios/test_\w+\.py)::(\w+)")
_MODULE = re.compile(rf"(?<![\w:]){_ROOMS}(?:::\w+)+")
_ITEM = re.compile(r"(?<![\w:])([A-Z]\w+)::(\w+)")
_LITERAL = re.compile(r"(`+)(.+?)\1")
# In reStructuredText: a target that is a file, and a scenario beside a reference to its file.
_TARGET = re.compile(r"^\.\. _([\w.-]+): (\.\./\S+)$", re.MULTILINE)
_PROOF = re.compile(r"``(test_\w+)`` in (test_\w+\.py)_(?!\w)")
_DEFINED = re.compile(r"In this table, (?:.+\n)+")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _documents(tree: Tree) -> list[str]:
    paths = tree.under("Documentation", ".rst") + [f for f in tree.files if f.endswith(".md")]
    return [path for path in paths if path not in GENERATED]


def _literals(line: str) -> Iterator[str]:
    """Yields the texts between backticks, and an indented line, which may be code, as a whole."""
    yield from (match[2] for match in _LITERAL.finditer(line))
    if line.startswith("    "):
        yield re.sub(r"`", " ", line)


def _exists(tree: Tree, path: str) -> bool:
    """Returns whether a path names a file, a folder or, with `*`, any file of the tree."""
    plain = path.rstrip("/")
    if any(plain == made or plain.startswith(made + "/") for made in MADE):
        return True
    if "*" in plain:
        return any(fnmatch(f, plain) or fnmatch(f, plain + "/*") for f in tree.files)
    return plain in tree.files or any(f.startswith(plain + "/") for f in tree.files)


def _is_module(tree: Tree, named: str) -> bool:
    """Returns whether a path is a module, or an item that its parent module mentions."""
    segments = named.split("::")
    for length in range(len(segments), 0, -1):
        path = f"rust/{'/'.join(segments[:length])}.rs"
        if path in tree.files:
            rest = segments[length : length + 1]
            return not rest or re.search(rf"\b{rest[0]}\b", tree.text(path)) is not None
    return False


@cache
def _words(tree: Tree) -> set[str]:
    """Returns every identifier of the Rust sources."""
    return {w for path in tree.under("rust", ".rs") for w in re.findall(r"\w+", tree.text(path))}


def _check_line(tree: Tree, line: str) -> Iterator[str]:
    """Yields a message for each wrong name in a line."""
    for literal in _literals(line):
        for path in _PATH.findall(literal):
            if not _exists(tree, path):
                yield f"no such file: {path}"
        for path, name in _SCENARIO.findall(literal):
            if path in tree.files and not _has_scenario(tree, path, name):
                yield f"no such scenario: {path}::{name}"
        for module in _MODULE.findall(literal):
            if not _is_module(tree, module):
                yield f"no such module: {module}"
        for item in _ITEM.finditer(literal):
            if not _words(tree).issuperset(item.groups()):
                yield f"nothing in rust/ has these names: {item[0]}"


def _check_links(tree: Tree, path: str, line: str) -> Iterator[str]:
    """Yields a message for each link of a Markdown file to a missing file."""
    for target in _LINK.findall(line):
        local = str(PurePath(path).parent / target)
        if "://" not in target and not _exists(tree, local):
            yield f"no such file: {target}"


def _check_targets(tree: Tree, path: str) -> Iterator[Finding]:
    """Yields the targets of a document that are no files, and scenarios that are not in theirs."""
    text, files = tree.text(path), {}
    for match in _TARGET.finditer(text):
        files[match[1]] = posixpath.normpath(f"{PurePath(path).parent}/{match[2]}")
        if not _exists(tree, files[match[1]]):
            yield Finding(path, line_of(text, match.start()), f"no such file: {match[2]}")
    for match in _PROOF.finditer(text):
        source = files.get(match[2], "")
        if source in tree.files and not _has_scenario(tree, source, match[1]):
            message = f"no such scenario: {source}::{match[1]}"
            yield Finding(path, line_of(text, match.start()), message)


def _has_scenario(tree: Tree, path: str, name: str) -> bool:
    return re.search(rf"^def {name}\(", tree.text(path), re.MULTILINE) is not None


def _check_document(tree: Tree, path: str) -> Iterator[Finding]:
    for number, line in enumerate(tree.text(path).splitlines(), 1):
        if len(line) > COLUMNS:
            yield Finding(path, number, f"{len(line)} columns; at most {COLUMNS}")
        messages = set(_check_line(tree, line))
        if path.endswith(".md"):
            messages |= set(_check_links(tree, path, line))
        for message in messages:
            yield Finding(path, number, message)
    if path.endswith(".rst"):
        yield from _check_targets(tree, path)


def _check_states(tree: Tree) -> Iterator[Finding]:
    """Yields the words that README.md defines for the table of the status, and does not use."""
    text = tree.text(README) if README in tree.files else ""
    for defined in _DEFINED.finditer(text):
        used = re.findall(r"^\|[^|]*\| *([^|]*?) *\|", text[defined.end() :], re.MULTILINE)
        for word in re.findall(r"\*([\w ]+)\*", defined[0]):
            if word not in used:
                line = line_of(text, defined.start())
                yield Finding(README, line, f"no row of the table has the state {word}")


def check(tree: Tree) -> list[Finding]:
    """Reports wrong names, dead links and long lines of every document."""
    documents = [finding for path in _documents(tree) for finding in _check_document(tree, path)]
    return documents + list(_check_states(tree))
