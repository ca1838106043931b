# SPDX-License-Identifier: GPL-2.0
"""Checks that the page on lock-free places has the places of the module, and the models theirs.

A place is a field or a static of an atomic type, a cell or a completion; a member of a C structure
that is accessed atomically, volatile or as a bit; and a barrier. The tables of the page have each
of them in the first column, and in the last one the model of tools/loom that compiles the place, if
there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from . import rust
from .tree import Finding, Tree, line_of

NAME = "lock-free"

PAGE = "Documentation/lock-free.rst"
MODELS = "tools/loom/src/models"
# Parts of newer kernel crates, for older ones.
REPLACED = "rust/compat/"

_TYPE = re.compile(
    r"\b(?:Atomic<|AtomicFlag\b|SetOnce<|Completion\b|WakeEvent\b|completion>|\w*Cell<)"
)
_STATIC = re.compile(r"^(?:pub\S* )?static (\w+): ([^=;]*)", re.MULTILINE)
_STRUCT = re.compile(r"\bstruct (\w+)(?:<[^{(;]*>)?\s*([{(])")
_FIELD = re.compile(r"^ +(?:pub(?:\([^)]*\))? )?(\w+): ([^\n]*)", re.MULTILINE)
_ACCESS = re.compile(
    r"\bAtomic::from_ptr\(|\.(?:read|write)_volatile\(|\bread_volatile\(|\b(?:set|clear)_bit\("
)
_RAW = re.compile(r"&raw (?:const|mut) ")
_MEMBER = re.compile(r"[)$:.](?:tracepoint\.)?([\w.]+)$")
_BARRIER = re.compile(r"\bsmp_mb\(")
_FUNCTION = re.compile(r"\bfn (\w+)")
_TEST = re.compile(r"^#\[cfg\(all\(RPCRDMA_KUNIT", re.MULTILINE)
_ROW = re.compile(r"^``([\w:.() ]+)``(?:  |$)")
_BAR = re.compile(r"^(=+  =+  )=+$")
_TAKEN = re.compile(r"^//< (\S+\.rs)$", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A place that is accessed without a lock, and where it stands."""

    name: str
    path: str
    line: int


def _fields(src: str) -> Iterator[tuple[str, int]]:
    """Yields the fields of such a type in the structures of a file, and their offsets."""
    for struct in _STRUCT.finditer(src):
        if struct[2] == "(":
            end = src.index(";", struct.end())
            if _TYPE.search(src, struct.end(), end):
                yield struct[1], struct.start()
            continue
        end = rust.closing_brace(src, struct.end() - 1)
        for field in _FIELD.finditer(src, struct.end(), end):
            if _TYPE.search(field[2]):
                yield f"{struct[1]}::{field[1]}", field.start(1)


def _function(src: str, offset: int) -> str:
    """Returns the name of the function around an offset."""
    found = _FUNCTION.findall(src, 0, offset)
    return found[-1] if found else ""


def _operand(src: str, start: int) -> str:
    """Returns the expression at `start`, which ends before a bracket that closes, or a comma."""
    depth = 0
    for mark in re.finditer(r"[(),;]", src[start:]):
        depth += {"(": 1, ")": -1}.get(mark[0], 0)
        if depth < 0 or (depth == 0 and mark[0] in ",;"):
            return src[start : start + mark.start()]
    return src[start:]


def _members(src: str) -> Iterator[tuple[str, int]]:
    """Yields the members of C structures that are accessed, or the functions that access them."""
    for access in _ACCESS.finditer(src):
        function = max(src.rfind("fn ", 0, access.start()), 0)
        raw = [*_RAW.finditer(src, function, src.find(";", access.end()))]
        member = _MEMBER.search(_operand(src, raw[-1].end())) if raw else None
        name = member[1].lstrip(".") if member else f"{_function(src, access.start())}()"
        yield name, access.start()


def places(tree: Tree, path: str) -> Iterator[Place]:
    """Yields the places of a file, without those of its tests."""
    text = tree.text(path)
    test = _TEST.search(text)
    src = rust.code(text)[: test.start() if test else None]
    room = PurePath(path).with_suffix("").parts[-2:]
    for static in _STATIC.finditer(src):
        if _TYPE.search(static[2]):
            yield Place("::".join([*room, static[1]]), path, line_of(text, static.start()))
    for name, at in [*_fields(src), *_members(src)]:
        yield Place(name, path, line_of(text, at))
    for barrier in _BARRIER.finditer(src):
        name = f"smp_mb in {_function(src, barrier.start())}"
        yield Place(name, path, line_of(text, barrier.start()))


def _described(page: str) -> dict[str, tuple[int, str]]:
    """Returns the rows of the tables: their lines, and their models."""
    rows, last = {}, 0
    for number, line in enumerate(page.splitlines(), 1):
        if bar := _BAR.match(line):
            last = len(bar[1])
        elif row := _ROW.match(line):
            rows[row[1]] = (number, line[last:].strip("`"))
    return rows


def check(tree: Tree) -> list[Finding]:
    """Reports places that only the module, or only the page, has; and models that lack a place."""
    if PAGE not in tree.files:
        return []
    rows = _described(tree.text(PAGE))
    found: dict[str, set[str]] = {}
    findings = []
    for path in tree.under("rust", ".rs"):
        if path.startswith(REPLACED):
            continue
        for place in places(tree, path):
            if place.name not in found and place.name not in rows:
                message = f"{place.name} is not in {PAGE}"
                findings.append(Finding(place.path, place.line, message))
            found.setdefault(place.name, set()).add(path.removeprefix("rust/"))
    for name, (line, model) in rows.items():
        if name not in found:
            findings.append(Finding(PAGE, line, f"there is no place {name}"))
            continue
        path = f"{MODELS}/{model}.rs"
        if model and path not in tree.files:
            findings.append(Finding(PAGE, line, f"there is no model {model}"))
        elif model and not found[name] & set(_TAKEN.findall(tree.text(path))):
            findings.append(Finding(path, 1, f"takes nothing from the file of {name}"))
    used = {model for _, model in rows.values()}
    for path in tree.under(MODELS, ".rs"):
        if PurePath(path).stem not in used:
            findings.append(Finding(path, 1, f"is not in {PAGE}"))
    return findings
