# SPDX-License-Identifier: GPL-2.0
"""Tests what `make pictures` writes into the README."""

from __future__ import annotations

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
