# SPDX-License-Identifier: GPL-2.0
"""Parses the parts of Rust's syntax that the checks need: comments, braces, items, paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

# Where two alternatives match at the same place, the earlier one is used.
_NOT_CODE = re.compile(
    r"""
      (?P<line>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\b(?:b|c)?r(?P<hashes>\#*)")
    | (?P<string>(?:\b[bc])?"(?:\\.|[^"\\])*")
    | (?P<char>(?:\bb)?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])')
    """,
    re.VERBOSE | re.DOTALL,
)


def _block_end(text: str, start: int) -> int:
    """Returns the end of the block comment that starts at `start`; block comments nest."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return start + mark.end()
    return len(text)


def _end(text: str, match: re.Match[str]) -> int:
    if match["block"]:
        return _block_end(text, match.start())
    if match["raw"]:
        closing = text.find('"' + match["hashes"], match.end())
        return len(text) if closing < 0 else closing + 1 + len(match["hashes"])
    return match.end()


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


@cache
def code(text: str) -> str:
    """Blanks out comments and literals, and keeps all offsets."""
    parts = []
    at = 0
    while match := _NOT_CODE.search(text, at):
        end = _end(text, match)
        parts += [text[at : match.start()], _blank(text[match.start() : end])]
        at = end
    return "".join([*parts, text[at:]])


def closing_brace(src: str, opening: int) -> int:
    """Returns the offset of the brace that closes the one at `opening`, in the output of `code`."""
    depth = 0
    for mark in re.finditer(r"[{}]", src[opening:]):
        depth += 1 if mark[0] == "{" else -1
        if depth == 0:
            return opening + mark.start()
    return len(src)


@dataclass(frozen=True)
class Span:
    """A named item: the offsets of its start and of its closing brace."""

    name: str
    start: int
    end: int


def _body(src: str, start: int) -> int | None:
    """Returns the offset of the brace that opens the body of an item, or None without a body."""
    depth = 0
    for mark in re.compile(r"[\[\](){;]").finditer(src, start):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(mark[0], 0)
        if depth == 0 and mark[0] in "{;":
            return mark.start() if mark[0] == "{" else None
    return None


def _spans(src: str, head: str) -> Iterator[Span]:
    for match in re.finditer(head, src):
        opening = _body(src, match.end())
        if opening is not None:
            yield Span(match[1], match.start(), closing_brace(src, opening))


@cache
def functions(text: str) -> list[Span]:
    """Returns the functions that have a body."""
    return list(_spans(code(text), r"\bfn\s+(\w+)"))


@cache
def inline_modules(text: str) -> list[Span]:
    """Returns the modules that have a body, such as `mod tests`."""
    return list(_spans(code(text), r"\bmod\s+(\w+)(?=\s*\{)"))


@cache
def test_modules(text: str) -> list[Span]:
    """Returns the inline modules that are compiled only for tests."""
    found = []
    for span in inline_modules(text):
        attributes = re.search(r"(?:#\[(?:[^\[\]]|\[[^\]]*\])*\]\s*)+$", text[: span.start])
        if attributes and re.search(r"KUNIT|\btest\b|kunit_tests", attributes[0]):
            found.append(span)
    return found


@dataclass(frozen=True)
class Path:
    """A path as written: its segments and its offset."""

    segments: tuple[str, ...]
    offset: int


def _split_tree(tree: str) -> list[str]:
    """Splits the inside of a use group at its own commas."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(tree):
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(tree[last:i])
            last = i + 1
    return [p for p in [*parts, tree[last:]] if p.strip()]


def _expand(tree: str, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields all paths of a use tree."""
    tree = tree.strip()
    group = re.match(r"^((?:[\w$]+\s*::\s*)*)\{(.*)\}$", tree, re.DOTALL)
    if group:
        head = tuple(re.findall(r"[\w$]+", group[1]))
        for part in _split_tree(group[2]):
            yield from _expand(part, prefix + head)
    else:
        yield prefix + tuple(re.findall(r"[\w$]+", re.split(r"\bas\b", tree)[0]))


@cache
def paths(text: str) -> list[Path]:
    """Returns the paths of use declarations, and those of expressions with two or more segments."""
    src = code(text)
    found = []
    for use in re.finditer(r"\buse\s+([^;]*);", src):
        found += [Path(p, use.start()) for p in _expand(use[1])]
    rest = re.sub(r"\buse\s+[^;]*;", lambda m: _blank(m[0]), src)
    for match in re.finditer(r"(?<![\w:])\$?\w+(?:\s*::\s*\$?\w+)+", rest):
        found.append(Path(tuple(re.findall(r"\$?\w+", match[0])), match.start()))
    return found
