# SPDX-License-Identifier: GPL-2.0
"""Checks that the worked examples in Documentation/wire.rst are golden bytes, and that none lacks.

An example is a literal block behind a line that names a file of rust/wire/vectors and a constant
in it: ``v2 MSG_INLINE``. Each of its lines has bytes in hex, and behind two spaces what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from . import golden
from .tree import Finding, Tree

NAME = "wire examples"

PAGE = "Documentation/wire.rst"
VECTORS = "rust/wire/vectors"
# Files whose every array has an example, and further arrays that have one.
COMPLETE = ("v2", "xchar")
FURTHER = tuple(("cm_private", name) for name in ("PLAIN", "WITH_VERSIONS", "WITH_SIZES"))

_TITLE = re.compile(r"\(``(\w+) (\w+)``\).*::$")
_BYTES = re.compile(r" {4}((?:[0-9a-f]{2} )*[0-9a-f]{2})(?: {2}|$)")


@dataclass(frozen=True)
class Example:
    """The bytes of an example, the array that it names, and its line."""

    array: tuple[str, str]
    line: int
    data: bytes


def _examples(text: str) -> Iterator[Example | Finding]:
    """Yields the examples of a page, and the lines in them that have no bytes."""
    array, start, data = None, 0, b""
    for number, line in enumerate([*text.splitlines(), "end"], 1):
        title = _TITLE.search(line)
        if array and line.strip() and line.startswith("    "):
            found = _BYTES.match(line)
            if found:
                data += bytes.fromhex(found[1])
            else:
                yield Finding(PAGE, number, "no bytes in hex, or no two spaces behind them")
        elif array and line.strip():
            yield Example(array, start, data)
            array = None
        if title:
            array, start, data = (title[1], title[2]), number, b""


def _arrays(tree: Tree) -> dict[tuple[str, str], bytes]:
    """Returns all golden arrays by file and name."""
    found = {}
    for path in tree.under(VECTORS, ".rs"):
        file = path.removeprefix(f"{VECTORS}/").removesuffix(".rs")
        arrays = golden.arrays(tree.text(path))
        found.update({(file, name): data for name, data in arrays.items()})
    return found


def _wrong(example: Example, want: bytes | None) -> str | None:
    """Returns the defects of an example."""
    if want is None:
        return f"no golden bytes {' '.join(example.array)}"
    if example.data == want:
        return None
    pairs = zip(example.data, want, strict=False)
    same = next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
    if same is None:
        return f"{len(example.data)} bytes, the golden bytes are {len(want)}"
    return f"byte {same} is {example.data[same]:02x}, in the golden bytes {want[same]:02x}"


def check(tree: Tree) -> list[Finding]:
    """Reports examples with other bytes, and golden bytes without an example."""
    arrays, shown, findings = _arrays(tree), set(), []
    for found in _examples(tree.text(PAGE)):
        if isinstance(found, Finding):
            findings.append(found)
            continue
        shown.add(found.array)
        if message := _wrong(found, arrays.get(found.array)):
            findings.append(Finding(PAGE, found.line, message))
    wanted = [array for array in arrays if array[0] in COMPLETE or array in FURTHER]
    missing = [array for array in wanted if array not in shown]
    return findings + [Finding(PAGE, 0, f"no example of {' '.join(a)}") for a in missing]
