# SPDX-License-Identifier: GPL-2.0
"""The screen and the keys of a terminal."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_REST = "\x1b[K"
_BELOW = "\x1b[J"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[m"


class Terminal:
    """A terminal that shows frames and gives keys, until the block ends."""

    def __init__(self) -> None:
        """Changes nothing yet."""
        self._saved: list[Any] | None = None

    def __enter__(self) -> Self:
        """Takes the screen."""
        if sys.stdin.isatty():
            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        self._write(_ENTER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Gives the screen back as it was."""
        self._write(_LEAVE)
        if self._saved is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)

    def show(self, lines: Sequence[str]) -> None:
        """Shows lines, cut to the size of the terminal. Lines that are not indented are bold."""
        width, height = shutil.get_terminal_size()
        out = []
        for line in lines[:height]:
            cut = line[:width]
            bold = cut and not cut.startswith(" ")
            out.append((f"{_BOLD}{cut}{_PLAIN}" if bold else cut) + _REST)
        self._write(_HOME + "\r\n".join(out) + _BELOW)

    def height(self) -> int:
        """Returns the number of lines of the terminal."""
        return shutil.get_terminal_size().lines

    def key(self, patience: float) -> str:
        """Returns a key, or an empty string if none is pressed within `patience` seconds."""
        ready, _, _ = select.select([sys.stdin], [], [], max(0, patience))
        if not ready:
            return ""
        return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
