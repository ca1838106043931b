# SPDX-License-Identifier: GPL-2.0
"""Reads the golden bytes in rust/wire/vectors, also for the tests of the dissector."""

from __future__ import annotations

import re

_ARRAY = re.compile(r"const (\w+): \[u8; (\d+)\] = \[(.*?)\];", re.DOTALL)


def arrays(text: str) -> dict[str, bytes]:
    """Returns the byte arrays that a Rust source declares as constants, by name."""
    found = {}
    for name, length, body in _ARRAY.findall(text):
        words = re.sub(r"//.*", "", body).split(",")
        found[name] = bytes(int(word, 0) for word in map(str.strip, words) if word)
        if len(found[name]) != int(length):
            raise ValueError(f"{name}: {length} bytes declared, {len(found[name])} found")
    return found
