# SPDX-License-Identifier: GPL-2.0
"""Prints the progress: one line for each step, with the seconds since the start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_BEGAN = time.monotonic()


def elapsed() -> float:
    """Returns the seconds since the start of the program."""
    return time.monotonic() - _BEGAN


def say(text: str) -> None:
    """Prints one progress line."""
    print(f"[{elapsed():6.1f}s] {text}", flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Prints the name of a step, and its duration if that is a second or more."""
    say(f"{name} …")
    began = time.monotonic()
    yield
    taken = time.monotonic() - began
    if taken >= 1:
        say(f"{name}: {taken:.1f} s")
