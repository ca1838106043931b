# SPDX-License-Identifier: GPL-2.0
"""Prints progress: one line for each step, with the time since the command began."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Prints one line with the seconds since the command began."""
    print(f"[{time.monotonic() - _BEGAN:6.1f}s] {text}", flush=True)


@contextmanager
def step(name: str, log: Path | None = None) -> Iterator[None]:
    """Prints a line at the beginning of a long step, and its duration at the end."""
    began = time.monotonic()
    say(f"{name} …" + (f" (log: {log})" if log else ""))
    yield
    say(f"{name}: done in {time.monotonic() - began:.1f} s")
