# SPDX-License-Identifier: GPL-2.0
"""Text in columns, and quantities for people."""

from __future__ import annotations

from collections.abc import Sequence

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def printable(text: str) -> str:
    """Returns the text with ``?`` in place of each character that a terminal may obey."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Returns the rows as lines with aligned columns. The first row is the head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def duration(seconds: int) -> str:
    """Returns a time span in its two largest units: ``45s``, ``2m03s``, ``1h12m``, ``3d04h``."""
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m{seconds % _MINUTE:02}s"
    if seconds < _DAY:
        return f"{seconds // _HOUR}h{seconds % _HOUR // _MINUTE:02}m"
    return f"{seconds // _DAY}d{seconds % _DAY // _HOUR:02}h"


def size(count: float) -> str:
    """Returns a number of bytes with a binary unit: ``512 B``, ``4.0 KiB``."""
    if round(count) < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if round(count, 1) < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def span(microseconds: float) -> str:
    """Returns a latency: ``87 us``, ``1.25 ms``, ``2.10 s``."""
    if round(microseconds) < 1000:
        return f"{microseconds:.0f} us"
    if round(microseconds / 1000, 2) < 1000:
        return f"{microseconds / 1000:.2f} ms"
    return f"{microseconds / 1_000_000:.2f} s"
