# SPDX-License-Identifier: GPL-2.0
"""Where the lab finds its own files and keeps what it builds.

Everything built or fetched lives below one cache directory of the user, so
that ``rm -r`` of it is a complete clean-up and the work tree stays untouched.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
ROOT = LAB.parent.parent
GUEST = LAB / "guest"
_KEEP_RUNS = 7 * 86400.0


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


def run_directory(name: str) -> Path:
    """A new directory for the consoles and captures of one run.

    Those of runs more than a week old are removed.
    """
    runs = sub("runs")
    for old in runs.iterdir():
        with suppress(FileNotFoundError):  # Another run may clean up just now.
            if time.time() - old.stat().st_mtime > _KEEP_RUNS:
                shutil.rmtree(old, ignore_errors=True)
    path = runs / time.strftime(f"%m%d-%H%M%S-{name}-{os.getpid()}")
    path.mkdir()
    return path


def scenario_directory() -> Path:
    """Returns the directory of this run of the scenarios; each process of pytest has its own."""
    given = os.environ.get("LAB_RUN")
    path = Path(given) if given else run_directory("check")
    path /= os.environ.get("PYTEST_XDIST_WORKER", "")
    path.mkdir(exist_ok=True)
    return path


@contextmanager
def locked(what: str = "cache") -> Iterator[None]:
    """Hold the lock of one part of the cache: two labs must not build it at once."""
    with (sub("locks") / what).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            text = f"lab: waiting for process {holder}, which builds {what}"
            print(text, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
