# SPDX-License-Identifier: GPL-2.0
"""Progress for people: one line a step, with the time since the command began."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print one progress line, stamped with the seconds since the start."""
    print(f"[{time.monotonic() - _BEGAN:6.1f}s] {text}", flush=True)


@contextmanager
def step(name: str, log: Path | None = None) -> Iterator[None]:
    """Announce a step that takes a while, and say how long it took."""
    began = time.monotonic()
    say(f"{name} …" + (f" (log: {log})" if log else ""))
    yield
    say(f"{name}: done in {time.monotonic() - began:.1f} s")
