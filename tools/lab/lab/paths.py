# SPDX-License-Identifier: GPL-2.0
"""Where the lab finds its own files and keeps what it builds.

Everything built or fetched lives below one cache directory of the user, so
that ``rm -r`` of it is a complete clean-up and the work tree stays untouched.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
ROOT = LAB.parent.parent
GUEST = LAB / "guest"


def cache() -> Path:
    """The lab's cache directory, created on first use."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "rpcrdma-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def sub(name: str) -> Path:
    """A directory of the cache, created on first use."""
    path = cache() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def log_file(name: str) -> Path:
    """The log of one build step; each run of the step overwrites the last."""
    return sub("log") / f"{name}.log"


@contextmanager
def locked() -> Iterator[None]:
    """Hold the cache's lock: two labs must not build the same thing at once."""
    with (cache() / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            print(f"lab: waiting for another build (process {holder})", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
