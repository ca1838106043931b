# SPDX-License-Identifier: GPL-2.0
"""Running programs: a clean environment, output kept, failures as one line."""

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

#: What may pass from the caller. Everything else (MAKEFLAGS, ARCH, CC, LLVM,
#: KBUILD_*, RUSTFLAGS …) would change what gets built.
_KEPT = ("HOME", "TMPDIR", "APT_CONFIG", "DPKG_ADMINDIR", "http_proxy", "https_proxy", "no_proxy")
_ALIVE_SECONDS = 10.0


def search_path() -> str:
    """The caller's PATH with the system's directories at its end."""
    system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    own = [part for part in os.environ.get("PATH", "").split(":") if part]
    return ":".join(dict.fromkeys(own + system))


def environment() -> dict[str, str]:
    """The environment of every program we start."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "PATH": search_path(), "LC_ALL": "C"}


def output(args: Args) -> str | None:
    """Standard output of a quick program, or None if it is absent or fails."""
    try:
        done = subprocess.run(
            list(args), env=environment(), capture_output=True, text=True, errors="replace"
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def logged(args: Args, log: Path, what: str, *, cwd: Path | None = None) -> None:
    """Run a long program with its output in `log`; show now and then that it lives.

    # Errors
    `HeadersError` with the end of the log, or about the disk if that filled up.
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
    """Wait; if we are interrupted, take the whole process group down with us."""
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
    """End a child started in its own session, and everything it started."""
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
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def last_line(log: Path) -> str:
    """The last line of a log, short enough for a progress line."""
    with log.open("rb") as file:
        # A command's own line, as `logged` writes it, can be a thousand bytes long.
        file.seek(max(0, log.stat().st_size - 8192))
        lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    if not lines or lines[-1].startswith("$ "):
        return "…"
    return lines[-1].replace(f"{log.parent}/", "").strip()[:70]
