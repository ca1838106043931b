# SPDX-License-Identifier: GPL-2.0
"""Tests what `make pictures` writes into the README."""

from __future__ import annotations

import struct
import zlib

import pytest

from lab import picture
from lab.errors import LabError

README = """\
## Watch it

```text
nfsrdma top, every 4 s: 68 ops/s
cost: much

Connections
```

More.

```text
other
```
"""


def test_block_is_replaced() -> None:
    told = picture.written(README, r"nfsrdma top, every 4 s: \1" + "\n")
    assert told == README.replace("68 ops/s\ncost: much\n\nConnections", r"\1")


@pytest.mark.parametrize("readme", ["# NFS\n", README + README])
def test_readme_needs_one_block(readme: str) -> None:
    with pytest.raises(LabError, match="and not one"):
        picture.written(readme, "")


def test_readme_of_this_tree_has_a_block() -> None:
    text = picture.README.read_text()
    assert picture.written(text, "nfsrdma top, x\n") != text


def test_last_interval() -> None:
    told = "nfsrdma top, every 4 s: 1\na\n\nnfsrdma top, every 4 s: 2\nb\n"
    assert picture.last_of(told) == "nfsrdma top, every 4 s: 2\nb\n"


def _png(rows: list[bytes], interlaced: int = 0) -> bytes:
    """Returns a picture with one pixel in each row."""
    head = struct.pack(">IIBBBBB", 1, len(rows), 8, 2, 0, 0, interlaced)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = ((b"IHDR", head), (b"tEXt", b"a\0b"), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(picture._chunk(kind, data) for kind, data in parts)


def test_picture_is_cropped() -> None:
    rows = [bytes([n, n, n]) for n in range(5)]
    whole, part = picture.cropped(_png(rows), 9), picture.cropped(_png(rows), 3)
    assert struct.unpack_from(">II", part, 16) == (1, 3)
    # The lengths of the signature, of the head with its frame, and of what is before the data.
    begin = 8 + 25 + 8
    length = struct.unpack_from(">I", part, 8 + 25)[0]
    assert zlib.decompress(part[begin : begin + length]) == b"".join(b"\0" + r for r in rows[:3])
    assert struct.unpack_from(">II", whole, 16) == (1, 5)


def test_picture_of_another_form() -> None:
    with pytest.raises(LabError, match="another form"):
        picture.cropped(_png([b"abc"], interlaced=1), 1)
