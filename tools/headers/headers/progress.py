# SPDX-License-Identifier: GPL-2.0
"""Progress for people: one line a step, with the seconds since the start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_BEGAN = time.monotonic()


def elapsed() -> float:
    """Seconds since the program began."""
    return time.monotonic() - _BEGAN


def say(text: str) -> None:
    """Print one progress line."""
    print(f"[{elapsed():6.1f}s] {text}", flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Announce a step, and say how long it took if that was noticeable."""
    say(f"{name} …")
    began = time.monotonic()
    yield
    taken = time.monotonic() - began
    if taken >= 1:
        say(f"{name}: {taken:.1f} s")
