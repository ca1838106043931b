# SPDX-License-Identifier: GPL-2.0
"""Checks sizes: functions of at most 60 lines, files of 600 lines, lines of 100 columns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from . import rust
from .tree import Finding, Tree, line_of

NAME = "sizes"

FUNCTION_MAX = 60
FILE_MAX = 600
COLUMNS_MAX = 100
# The distance of tab stops in C, in columns.
TAB = 8

# Files that may be longer, with the reason.
LONG_FILES = {
    "include/trace/events/rpcrdma_rs.h": "a trace header is one file by the kernel's mechanism",
    "Documentation/rfc-map.rst": "a table, written by rfc_map.py",
}

_SUFFIXES = (".rs", ".c", ".h", ".py", ".sh", ".rst")
_WITH_COLUMNS = (".rs", ".c", ".h", ".py")


def _rust_functions(text: str) -> Iterator[tuple[str, int, int]]:
    for span in rust.functions(text):
        yield span.name, line_of(text, span.start), line_of(text, span.end)


def _python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def _c_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields functions in kernel style: the opening brace stands alone in the first column."""
    for body in re.finditer(r"^\{$.*?^\}", text, re.MULTILINE | re.DOTALL):
        head = re.search(r"(\w+)\s*\([^{};]*\)\s*$", text[: body.start()])
        yield head[1] if head else "?", line_of(text, body.start()), line_of(text, body.end())


_LANGUAGES = {".rs": _rust_functions, ".py": _python_functions, ".c": _c_functions}


def _check_file(path: str, text: str) -> Iterator[Finding]:
    lines = text.count("\n")
    if lines > FILE_MAX and path not in LONG_FILES:
        yield Finding(path, 0, f"{lines} lines; at most {FILE_MAX}")
    find = _LANGUAGES.get(path[path.rfind(".") :])
    for name, first, last in find(text) if find else ():
        if last - first + 1 > FUNCTION_MAX:
            length = last - first + 1
            yield Finding(path, first, f"{name} has {length} lines; at most {FUNCTION_MAX}")


def _check_columns(path: str, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        columns = len(line.expandtabs(TAB))
        if columns > COLUMNS_MAX:
            yield Finding(path, number, f"{columns} columns; at most {COLUMNS_MAX}")


def check(tree: Tree) -> list[Finding]:
    """Reports functions, files and lines above their limits."""
    paths = [f for f in tree.files if f.endswith(_SUFFIXES)]
    findings = [finding for path in paths for finding in _check_file(path, tree.text(path))]
    for path in paths:
        if path.endswith(_WITH_COLUMNS):
            findings += _check_columns(path, tree.text(path))
    return findings
