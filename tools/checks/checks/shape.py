# SPDX-License-Identifier: GPL-2.0
"""Measures the shape of the crate, and checks its limits: boxes, code lines, inlining, traits.

Tests do not count: neither folders and files of tests, nor modules that are compiled for tests.
`run.py --shape` prints the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from statistics import median

from . import rust
from .tree import Finding, Tree

NAME = "shape"

# The limits may only fall. A reader of a room sees that many files and folders first.
BOXES = {"rust/client": 9, "rust/server": 10}
# Lines with code in all rooms, as they are built for the newest series of Linux.
CODE_MAX = 28000
# Lines with code that only an older series needs. They go with the series.
OLDER = "rust/compat/before_"
OLDER_MAX = 78
# The percentage of the functions that have an inlining attribute.
INLINED_MAX = 10
# Traits that one type implements. The others join two rooms, or two types.
SINGLE_TRAITS_MAX = 4
# The files that may name a phase of the client's slots.
PHASE_FILES_MAX = 1

_TEST_FILE = re.compile(r"/(?:vectors|cases|tests\w*|kunit)(?:/|\.rs$)")
_INLINE = re.compile(r"#\[\s*inline\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:[\w()]+\s+)*?fn\b")
_TRAIT = re.compile(r"\btrait\s+(\w+)")
_IMPL = re.compile(r"\bimpl\b[^;{]*?\b(\w+)(?:<[^;{]*?>)?\s+for\b")
_PHASE = re.compile(r"\bPhase::\w+")


@dataclass(frozen=True)
class Shape:
    """The measurements of a folder with Rust sources."""

    boxes: int
    files: int
    code: int
    median: float
    functions: int
    inlined: int


@cache
def product(text: str) -> str:
    """Returns the code of a file without comments, literals and modules of tests."""
    src = rust.code(text)
    for span in rust.test_modules(text):
        end = span.end + 1
        src = src[: span.start] + re.sub(r"[^\n]", " ", src[span.start : end]) + src[end:]
    return src


def sources(tree: Tree, folder: str = "rust") -> list[str]:
    """Returns the files of a folder that are neither tests nor for older series."""
    found = [f for f in tree.under(folder, ".rs") if not _TEST_FILE.search(f)]
    return [f for f in found if not f.startswith(OLDER)]


def older(tree: Tree) -> int:
    """Returns the number of lines that have code for older series."""
    return sum(_lines(tree, f) for f in tree.under("rust/compat", ".rs") if f.startswith(OLDER))


def _lines(tree: Tree, path: str) -> int:
    """Returns the number of lines that have code."""
    shown = zip(tree.text(path).splitlines(), product(tree.text(path)).splitlines(), strict=True)
    return sum(bool(code.strip()) for _, code in shown)


def boxes(tree: Tree, folder: str) -> set[str]:
    """Returns the members of a folder: files, folders, and a file with its folder."""
    depth = len(PurePath(folder).parts)
    return {PurePath(f).with_suffix("").parts[depth] for f in sources(tree, folder)}


def measure(tree: Tree, folder: str = "rust") -> Shape:
    """Measures a folder."""
    paths = sources(tree, folder)
    code = [_lines(tree, path) for path in paths]
    texts = [product(tree.text(path)) for path in paths]
    return Shape(
        boxes=len(boxes(tree, folder)),
        files=len(paths),
        code=sum(code),
        median=median(code or [0]),
        functions=sum(len(re.findall(r"\bfn\s+\w+", text)) for text in texts),
        inlined=sum(len(_INLINE.findall(text)) for text in texts),
    )


def single_traits(tree: Tree) -> list[str]:
    """Returns the traits that one type implements."""
    texts = [product(tree.text(path)) for path in sources(tree)]
    traits = {name for text in texts for name in _TRAIT.findall(text)}
    implemented = [name for text in texts for name in _IMPL.findall(text)]
    return sorted(name for name in traits if implemented.count(name) == 1)


def phase_files(tree: Tree) -> list[str]:
    """Returns the files of the client that name a phase of a slot."""
    named = sources(tree, "rust/client")
    return [path for path in named if _PHASE.search(product(tree.text(path)))]


_COLUMNS = "{:16}{:>7}{:>7}{:>8}{:>8}{:>11}{:>9}"


def table(tree: Tree) -> Iterator[str]:
    """Yields the measurements, a line each."""
    yield _COLUMNS.format("folder", "boxes", "files", "code", "median", "functions", "inlined")
    rooms = sorted({"/".join(PurePath(f).parts[:2]) for f in sources(tree)})
    for folder in [*(room for room in rooms if not room.endswith(".rs")), "rust"]:
        m = measure(tree, folder)
        share = f"{_percent(m):.0f} %"
        yield _COLUMNS.format(folder, m.boxes, m.files, m.code, m.median, m.functions, share)
    yield f"code lines for older series: {older(tree)}"
    yield "traits with one implementor: " + " ".join(single_traits(tree))
    yield "files that name a phase of a slot: " + " ".join(phase_files(tree))


def _percent(shape: Shape) -> float:
    return 100 * shape.inlined / max(shape.functions, 1)


def check(tree: Tree) -> list[Finding]:
    """Reports the measurements above their limits."""
    crate = measure(tree)
    measured = [
        *((room, len(boxes(tree, room)), most, "boxes") for room, most in BOXES.items()),
        ("rust", crate.code, CODE_MAX, "code lines"),
        ("rust/compat", older(tree), OLDER_MAX, "code lines for older series"),
        ("rust", _percent(crate), INLINED_MAX, "percent of the functions are inlined"),
        ("rust", len(single_traits(tree)), SINGLE_TRAITS_MAX, "traits with one implementor"),
        ("rust/client", len(phase_files(tree)), PHASE_FILES_MAX, "files name a phase"),
    ]
    return [
        Finding(folder, 0, f"{now:g} {name}; at most {most}")
        for folder, now, most, name in measured
        if now > most
    ]
