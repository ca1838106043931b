# SPDX-License-Identifier: GPL-2.0
"""Prints the metrics, serves them by HTTP, or writes them to a file."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..host import Host
from ..top import served
from ..top.latencies import EVENTS
from ..trace.tracefs import Recording
from . import reconnects
from .collect import Collector
from .latency import Histograms
from .metrics import Format

if TYPE_CHECKING:
    from .serve import Server

#: Without an address the command listens here: the metrics name peers.
LOCALHOST = "127.0.0.1"
#: The mode of the file: any user may read it, as the collector of node_exporter has to.
_MODE = 0o644


@dataclass(frozen=True)
class Wish:
    """The destination of the metrics; by default they are printed."""

    listen: tuple[str, int] | None = None
    textfile: str = ""
    latency: bool = False


def address(text: str) -> tuple[str, int]:
    """Returns the address and the port of ``[ADDRESS:]PORT``.

    # Errors
    `ValueError`: the text is none.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if (colon and not host) or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise ValueError
    return host or LOCALHOST, int(port)


def export(
    host: Host, wish: Wish, *, serves: bool, serve: Callable[[Server], None] | None = None
) -> int:
    """Does it. Returns the exit status. `serve` runs the server, in place of its own loop.

    # Errors
    `UsageError`: the file cannot be written, or the address cannot be used.
    """
    if wish.listen:
        _listen(host, wish, serves, serve)
    elif wish.textfile:
        file = Path(wish.textfile)
        before = reconnects.parse(_earlier(file))
        write(file, Collector(host, reconnected=before).collect().text(Format.TEXT))
    else:
        sys.stdout.write(Collector(host).collect().text(Format.OPENMETRICS))
    return 0


def _listen(host: Host, wish: Wish, serves: bool, serve: Callable[[Server], None] | None) -> None:
    from .serve import Server, written  # noqa: PLC0415 - other commands begin faster without HTTP

    histograms = None
    if wish.latency:
        names = EVENTS + (served.EVENTS if serves else ())
        histograms = Histograms(lambda: Recording(names), serves=serves)
    assert wish.listen
    try:
        with Server(wish.listen, Collector(host, histograms)) as server:
            where = written((wish.listen[0], server.server_port))
            print(f"nfsrdma: metrics at http://{where}/metrics", file=sys.stderr, flush=True)
            if histograms and histograms.problem:
                print(f"nfsrdma: no latencies yet: {histograms.problem}", file=sys.stderr)
            (serve or Server.run)(server)
    finally:
        if histograms:
            histograms.close()


def _earlier(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def write(file: Path, text: str) -> None:
    """Writes a file at once: a reader sees the earlier text or the new one, and never a part.

    # Errors
    `UsageError`: that is not possible, and why.
    """
    # The collector of node_exporter reads no file with another ending.
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            # Another user of the directory may have put a symbolic link there.
            part.unlink(missing_ok=True)
            with part.open("x", encoding="utf-8") as opened:
                os.fchmod(opened.fileno(), _MODE)
                opened.write(text)
            part.replace(file)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
    except OSError as error:
        is_missing = error.errno == errno.ENOENT
        hint = f"; make the directory first: mkdir -p {file.parent}" if is_missing else ""
        raise UsageError(f"cannot write {file}: {error.strerror}{hint}") from error
