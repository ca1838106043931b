# SPDX-License-Identifier: GPL-2.0
"""Records, and writes the page."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import doctor, mounts
from ..errors import UsageError
from ..host import Host
from ..trace.command import Source, running
from .mask import Mask, masked, unmasked
from .page import About, describe, page
from .record import EVENTS, SERVER_EVENTS, Data, record


@dataclass(frozen=True)
class Wish:
    """The subject of a recording, and the file to write."""

    file: str
    seconds: float = 30
    command: Sequence[str] = ()
    masked: bool = False
    as_json: bool = False
    #: Whether this host serves calls, which are recorded as well.
    serves: bool = False

    @property
    def events(self) -> tuple[str, ...]:
        """The events to record."""
        return EVENTS + (SERVER_EVENTS if self.serves else ())


def report(host: Host, source: Source, wish: Wish) -> int:
    """Records and writes. Returns the exit status of the command; 0 without a command.

    An earlier file keeps what it has until the recording has ended.

    # Errors
    `UsageError`: the file cannot be written, or the command cannot be run.
    """
    with _writing(wish.file):
        _try_to_write(Path(wish.file))
    run = (lambda: running(wish.command)) if wish.command else None
    data = record(host, source, wish.seconds, run, serves=wish.serves)
    text = render(host, data, wish)
    with _writing(wish.file):
        Path(wish.file).write_text(text, encoding="utf-8")
    print(f"{wish.file}: {data.count} calls")
    return data.status


@contextmanager
def _writing(file: str) -> Iterator[None]:
    """Turns an error of the block into one of the command line."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error


def _try_to_write(file: Path) -> None:
    """Opens a file for writing, and leaves it as it was."""
    existed = file.exists()
    file.open("a").close()
    if not existed:
        file.unlink()


def render(host: Host, data: Data, wish: Wish) -> str:
    """Returns the text of the file."""
    found = doctor.examine(host, None)
    about = About(
        host=platform.node(),
        kernel=(host.read("/proc/sys/kernel/osrelease") or "?").strip(),
        module=(host.read("/sys/module/rpcrdma/version") or "of the kernel").strip(),
        when=time.strftime("%Y-%m-%d %H:%M:%S %z"),
    )
    mask = Mask(_names(host, about)) if wish.masked else unmasked
    if wish.as_json:
        return json.dumps(masked(describe(data, about, found), mask), indent=2) + "\n"
    return page(data, about, found, mask)


def _names(host: Host, about: About) -> list[str]:
    """Returns the names that the recording may contain: hosts, exports and mount points."""
    names = [about.host, about.host.partition(".")[0]]
    for mount in mounts.mounts(host):
        server, _, export = mount.source.rpartition(":")
        names += [server, export, mount.point]
    return [name for name in dict.fromkeys(names) if len(name) > 1]
