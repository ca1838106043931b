# SPDX-License-Identifier: GPL-2.0
"""Runs programs in a clean environment, and keeps their output."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import HeadersError, no_room
from .progress import say

Args = Sequence[str | os.PathLike[str]]

#: Variables that pass from the caller's environment. Others, such as MAKEFLAGS, ARCH, CC, LLVM,
#: KBUILD_* and RUSTFLAGS, would change the result of the build.
_KEPT = ("HOME", "TMPDIR", "APT_CONFIG", "DPKG_ADMINDIR", "http_proxy", "https_proxy", "no_proxy")
_ALIVE_SECONDS = 10.0


def search_path() -> str:
    """Returns the caller's PATH with the system's directories at its end."""
    system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    own = [part for part in os.environ.get("PATH", "").split(":") if part]
    return ":".join(dict.fromkeys(own + system))


def environment() -> dict[str, str]:
    """Returns the environment of every program that this package starts."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "PATH": search_path(), "LC_ALL": "C"}


def output(args: Args) -> str | None:
    """Returns the standard output of a program, or None if it is absent or fails."""
    try:
        done = subprocess.run(
            list(args), env=environment(), capture_output=True, text=True, errors="replace"
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def logged(args: Args, log: Path, what: str, *, cwd: Path | None = None) -> None:
    """Runs a long program with its output in `log`, and prints its progress every few seconds.

    # Errors
    `HeadersError` with the end of the log, or about the disk if it is full.
    """
    with log.open("ab") as out:
        out.write(f"$ {' '.join(os.fspath(arg) for arg in args)}\n".encode())
        out.flush()
        child = subprocess.Popen(
            list(args),
            env=environment(),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        status = _await(child, log)
    if status:
        raise _failure(log, what, status)


def _await(child: subprocess.Popen[bytes], log: Path) -> int:
    """Waits for the program. An interruption ends its whole process group."""
    said = time.monotonic()
    try:
        while True:
            try:
                return child.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
            if time.monotonic() - said >= _ALIVE_SECONDS:
                said = time.monotonic()
                say(f"    {last_line(log)}")
    except BaseException:
        stop(child)
        raise


def stop(child: subprocess.Popen[bytes]) -> None:
    """Ends a child that runs in its own session, and all processes that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(3)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def _failure(log: Path, what: str, status: int) -> HeadersError:
    end = tail(log)
    if "No space left on device" in end:
        return no_room(log.parent)
    return HeadersError(f"{what} failed (exit {status}); the end of its output:", end)


def tail(log: Path, lines: int = 15) -> str:
    """Returns the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def last_line(log: Path) -> str:
    """Returns the last line of a log, cut to the length of a progress line."""
    with log.open("rb") as file:
        # The line with the command that `logged` writes can be a thousand bytes long.
        file.seek(max(0, log.stat().st_size - 8192))
        lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    if not lines or lines[-1].startswith("$ "):
        return "…"
    return lines[-1].replace(f"{log.parent}/", "").strip()[:70]
