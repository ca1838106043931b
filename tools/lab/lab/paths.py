# SPDX-License-Identifier: GPL-2.0
"""The places of the lab's own files and of the files that it builds.

All that the lab builds or fetches is below one cache directory of the user. ``rm -r`` of that
directory removes everything, and the work tree stays unchanged.
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
    """Returns the lab's cache directory, and creates it at the first use."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "rpcrdma-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def sub(name: str) -> Path:
    """Returns a directory of the cache, and creates it at the first use."""
    path = cache() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def log_file(name: str) -> Path:
    """Returns the log of a build step; each run of the step overwrites the log."""
    return sub("log") / f"{name}.log"


def run_directory(name: str) -> Path:
    """Makes a directory for the consoles and captures of one run.

    Removes the directories of runs that are more than a week old.
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
    """Holds the lock of one part of the cache, so that two labs do not build it at once."""
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
