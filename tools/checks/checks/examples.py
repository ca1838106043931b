# SPDX-License-Identifier: GPL-2.0
"""Checks that examples in doc comments are quoted from code that is compiled.

Kernel doctests run for the `kernel` crate only, so no build compiles an example in a doc comment.
Each code block below a heading `# Examples` must therefore be a part of a module under `samples/`,
or of a KUnit suite: the same lines in the same order, with any indentation. A line `// ...` stands
for lines that are left out. Blocks marked `text` are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from . import rust
from .tree import Finding, Tree

NAME = "examples"

ROOMS = ("rust/rdma", "rust/sunrpc")

# The central types, by file. Each must have an example.
CENTRAL: dict[str, tuple[str, ...]] = {
    "rust/rdma/cm.rs": ("CmId",),
    "rust/rdma/cm/event.rs": ("CmHandler",),
    "rust/rdma/device/registration.rs": ("Registration",),
    "rust/rdma/listen.rs": ("Listener",),
    "rust/rdma/mr.rs": ("Mr",),
    "rust/rdma/qp.rs": ("Qp",),
    "rust/rdma/qp/completion.rs": ("Completions",),
    "rust/rdma/recv.rs": ("Received", "Held"),
    "rust/rdma/scatter.rs": ("Source", "Sink"),
    "rust/sunrpc/svc/receive.rs": ("Incoming", "Arriving"),
    "rust/sunrpc/svc/reply.rs": ("Reply",),
    "rust/sunrpc/svc/transport.rs": ("Listener", "Connection"),
    "rust/sunrpc/svc/xprt.rs": ("Handle",),
}

_LEFT_OUT = "// ..."


@dataclass(frozen=True)
class Block:
    """A code block: its line number, and its lines without indentation."""

    line: int
    lines: tuple[str, ...]


def _comments(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yields the doc comments of a file as numbered lines without `///` or `//!`."""
    comment: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*//[/!] ?(.*)", line)
        if match:
            comment.append((number, match[1]))
        elif comment:
            yield comment
            comment = []
    if comment:
        yield comment


def _blocks_of(comment: list[tuple[int, str]]) -> Iterator[Block]:
    """Yields the code blocks below the heading `# Examples` of a comment."""
    below, quoted, start, lines = False, False, 0, []
    for number, line in comment:
        fence = re.match(r"```(\w*)", line)
        if fence and quoted:
            quoted = False
            if below and lines is not None:
                yield Block(start, tuple(lines))
        elif fence:
            quoted, start = True, number
            lines = None if fence[1] == "text" else []
        elif quoted and lines is not None and line.strip():
            lines.append(line.strip())
        elif not quoted and line.startswith("#"):
            below = line.strip() == "# Examples"


def blocks(text: str) -> list[Block]:
    """Returns all examples of a file."""
    return [block for comment in _comments(text) for block in _blocks_of(comment)]


def _stripped(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _compiled(tree: Tree) -> list[list[str]]:
    """Returns the sources of examples, without indentation: samples and test modules."""
    sources = [_stripped(tree.text(path)) for path in tree.under("samples", ".rs")]
    for path in tree.under("rust", ".rs"):
        text = tree.text(path)
        if path.endswith("/tests.rs"):
            sources.append(_stripped(text))
        sources += [_stripped(text[t.start : t.end]) for t in rust.test_modules(text)]
    return sources


def _pieces(lines: tuple[str, ...]) -> list[list[str]]:
    """Splits an example at the lines `// ...`."""
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line == _LEFT_OUT:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return [piece for piece in pieces if piece]


def _find(piece: list[str], source: list[str], start: int) -> int | None:
    """Returns the end of `piece` in `source`, searched from `start` on."""
    for at in range(start, len(source) - len(piece) + 1):
        if source[at : at + len(piece)] == piece:
            return at + len(piece)
    return None


def _is_quoted_from(block: Block, source: list[str]) -> bool:
    at: int | None = 0
    for piece in _pieces(block.lines):
        at = _find(piece, source, at)
        if at is None:
            return False
    return True


def _check_blocks(path: str, text: str, sources: list[list[str]]) -> Iterator[Finding]:
    for block in blocks(text):
        if not _pieces(block.lines):
            yield Finding(path, block.line, "the example is empty")
        elif not any(_is_quoted_from(block, source) for source in sources):
            yield Finding(path, block.line, "the example is in no sample, and in no KUnit suite")


def _check_headings(path: str, text: str) -> Iterator[Finding]:
    for comment in _comments(text):
        for number, line in comment:
            if line.strip() == "# Examples" and not any(_blocks_of(comment)):
                yield Finding(path, number, "no code block below `# Examples`")


def _has_example(text: str, name: str) -> bool:
    """Returns whether the doc comment of a type has an example."""
    item = re.search(
        rf"((?:^[ \t]*(?://|#\[).*\n)+)^[ \t]*pub\S*(?: unsafe)? (?:struct|trait|enum) {name}\b",
        text,
        re.MULTILINE,
    )
    return item is not None and bool(blocks(item[1]))


def check(tree: Tree) -> list[Finding]:
    """Reports examples that are not compiled, and central types without an example."""
    sources = _compiled(tree)
    findings = []
    for room in ROOMS:
        for path in [f"{room}.rs", *tree.under(room, ".rs")]:
            if path in tree.files:
                findings += _check_blocks(path, tree.text(path), sources)
                findings += _check_headings(path, tree.text(path))
    for path, names in CENTRAL.items():
        if path in tree.files:
            text = tree.text(path)
            missing = [name for name in names if not _has_example(text, name)]
            findings += [
                Finding(path, 0, f"{name} has no section `# Examples`") for name in missing
            ]
    return findings
