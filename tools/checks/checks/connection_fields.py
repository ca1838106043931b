# SPDX-License-Identifier: GPL-2.0
"""Checks that the fields of the file `connections` are those that its page describes.

A field is written as `name={...}` in the module, and described as ``name`` at the begin of a line
of the page.
"""

from __future__ import annotations

import re

from .tree import Finding, Tree, line_of

NAME = "connection fields"

SOURCE = "rust/observe/connections.rs"
PAGE = "Documentation/connections.rst"

_TESTS = "#[cfg(all(RPCRDMA_KUNIT"
_STRING = re.compile(r'(?:fmt!\(|write_str\()\s*"((?:[^"\\]|\\.)*)"')
_FIELD = re.compile(r"(?:^|\s)(\w+)=")
_TERM = re.compile(r"^``\w+``(?:, ``\w+``)*$", re.MULTILINE)
_EXAMPLE = re.compile(r"::\n\n((?:    .*\n)+)")


def written(text: str) -> dict[str, int]:
    """Returns the fields that the module writes, each with its line, tests left out."""
    code = text.partition(_TESTS)[0]
    fields: dict[str, int] = {}
    for match in _STRING.finditer(code):
        for name in _FIELD.findall(match[1]):
            fields.setdefault(name, line_of(code, match.start()))
    return fields


def described(page: str) -> dict[str, int]:
    """Returns the fields that the page describes, each with its line."""
    fields: dict[str, int] = {}
    for match in _TERM.finditer(page):
        for name in re.findall(r"\w+", match[0]):
            fields[name] = line_of(page, match.start())
    return fields


def _check_example(page: str, fields: dict[str, int]) -> list[Finding]:
    """Reports fields of the example that the module does not write."""
    example = _EXAMPLE.search(page)
    if not example:
        return [Finding(PAGE, 0, "lacks the example of a line")]
    line = line_of(page, example.start(1))
    names = [name for name in _FIELD.findall(example[1]) if name not in fields]
    return [Finding(PAGE, line, f"{SOURCE} writes no field {name}") for name in names]


def check(tree: Tree) -> list[Finding]:
    """Reports fields that only the module, or only the page, has."""
    if SOURCE not in tree.files or PAGE not in tree.files:
        return []
    page = tree.text(PAGE)
    fields, entries = written(tree.text(SOURCE)), described(page)
    if not fields:
        return [Finding(SOURCE, 0, "writes no fields that this check can read")]
    missing = [
        Finding(SOURCE, line, f"{name} has no entry in {PAGE}")
        for name, line in fields.items()
        if name not in entries
    ]
    unknown = [
        Finding(PAGE, line, f"{SOURCE} writes no field {name}")
        for name, line in entries.items()
        if name not in fields
    ]
    return missing + unknown + _check_example(page, fields)
