# SPDX-License-Identifier: GPL-2.0
"""Reads the file `connections` of our module in a guest."""

from __future__ import annotations

from .pair import Guest

FILE = "/sys/kernel/debug/rpcrdma/connections"


def parse(text: str) -> list[dict[str, str]]:
    """Returns the fields of each line."""
    return [dict(word.split("=", 1) for word in line.split()) for line in text.splitlines()]


def read(guest: Guest) -> list[dict[str, str]]:
    """Returns the fields of each line, as the file is now."""
    return parse(guest.read(FILE))
