# SPDX-License-Identifier: GPL-2.0
"""Runs tools of the host, with their output in a log and the end of the log in errors."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import LabError
from .progress import say

Args = Sequence[str | os.PathLike[str]]

#: The line that Kbuild prints for each object: `  CC [M]  drivers/foo.o`.
_OBJECT = re.compile(r"^  [A-Z]+[A-Z0-9_]* +(\[M\]|P|L)? *\S+$")


def capture(args: Args, **env: str) -> str:
    """Runs a quick command and returns its standard output."""
    try:
        done = subprocess.run(
            [os.fspath(a) for a in args],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError as err:
        raise LabError(f"{args[0]}: not installed; run tools/lab/bootstrap") from err
    except subprocess.CalledProcessError as err:
        raise LabError(f"{_shown(args)}: exit {err.returncode}: {err.stderr.strip()}") from err
    return done.stdout


def logged(
    args: Args,
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    every: float = 30.0,
) -> None:
    """Runs a long command with its output in `log`, and shows progress.

    Prints the number of lines that look like those of Kbuild every `every` seconds.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as out:
        out.write(f"$ {_shown(args)}\n")
        out.flush()
        try:
            child = subprocess.Popen(
                [os.fspath(a) for a in args],
                env={**os.environ, **(env or {})},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except FileNotFoundError as err:
            raise LabError(f"{args[0]}: not installed; run tools/lab/bootstrap") from err
        _follow(child, out.write, every)
    if child.returncode:
        raise LabError(f"{_shown(args)}: exit {child.returncode}; end of {log}:\n{tail(log)}")


def _follow(child: subprocess.Popen[str], write: object, every: float) -> None:
    """Copies a child's output into its log and prints the number of objects so far."""
    assert child.stdout is not None and callable(write)
    objects, last = 0, time.monotonic()
    try:
        for line in child.stdout:
            write(line)
            objects += bool(_OBJECT.match(line))
            if time.monotonic() - last > every:
                last = time.monotonic()
                say(f"    … {objects} objects" if objects else f"    … {line.strip()[:70]}")
    except BaseException:
        child.terminate()
        raise
    finally:
        child.wait()


def tail(log: Path, lines: int = 25) -> str:
    """Returns the last lines of a log, for an error message."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _shown(args: Args) -> str:
    text = " ".join(os.fspath(a) for a in args)
    return text if len(text) < 160 else text[:157] + "..."
