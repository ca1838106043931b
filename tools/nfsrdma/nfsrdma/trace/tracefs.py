# SPDX-License-Identifier: GPL-2.0
"""A recording of trace events in an instance of tracefs.

Other users of the trace are not disturbed. The instance is removed at the end.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ..errors import UsageError
from .events import Event, lost, parse_line

ROOT = Path("/sys/kernel/tracing")

#: Kilobytes of the buffer of a processor, at most and at least, and of those of all processors.
_LARGEST, _SMALLEST, _TOTAL = 4096, 256, 65536

#: The begin of the name of an instance. The process id follows.
_PREFIX = "nfsrdma."

#: Bytes that are read from the pipe at once, and the most that `Recording.read()` takes.
_CHUNK, _MOST = 1 << 16, 1 << 22


def _is_folder(path: Path) -> bool:
    """Whether this user can see a directory there. Some versions of Python raise errors instead."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _buffer() -> int:
    """Returns the kilobytes of the buffer of each processor.

    The kernel allocates a buffer for each processor that is online, at once.
    """
    share = _TOTAL // (os.cpu_count() or 1)
    return max(_SMALLEST, min(_LARGEST, share))


class Recording:
    """Records events from its begin to its end.

    # Examples
    ::

        with Recording(["rpcrdma:xprtrdma_marshal"]) as recording:
            ...
        events = recording.events
    """

    def __init__(self, names: Iterable[str], root: Path = ROOT) -> None:
        """Prepares to record events with these names, ``group:name``."""
        self._names = list(names)
        self._root = root
        self._folder = root / "instances" / f"{_PREFIX}{os.getpid()}"
        self._pipe: int | None = None
        self._rest = ""
        #: The events that the kernel had no room for.
        self.lost = 0
        #: The names of events that this kernel does not have.
        self.missing: list[str] = []

    def __enter__(self) -> Self:
        """Begins to record.

        # Errors
        `UsageError`: this is not possible here, and why.
        """
        if not _is_folder(self._root / "events"):
            raise UsageError(f"no trace in {self._root}: is tracefs mounted, and are you root?")
        if not _is_folder(self._root / "events/rpcrdma"):
            raise UsageError("the module is not loaded: modprobe rpcrdma")
        self._clear()
        try:
            self._folder.mkdir()
            self._begin()
        except FileExistsError as error:
            raise UsageError(
                f"cannot record trace events: {self._folder} is in use, perhaps by a process of"
                " another container that has the same number"
            ) from error
        except OSError as error:
            self._end()
            raise UsageError(f"cannot record trace events: {error}") from error
        except BaseException:
            # A signal. Nobody else ends a recording that has not begun.
            self._end()
            raise
        return self

    def _clear(self) -> None:
        """Removes instances of killed commands, which would continue to record.

        One with the number of this process is of such a command: in a container the numbers are
        few. The kernel keeps an instance whose pipe is open.
        """
        for folder in (self._root / "instances").glob(f"{_PREFIX}*"):
            pid = folder.name.removeprefix(_PREFIX)
            if folder == self._folder or not Path("/proc", pid).exists():
                with suppress(OSError):
                    folder.rmdir()

    def _begin(self) -> None:
        self._write("trace_clock", "mono")
        self._write("buffer_size_kb", str(_buffer()))
        # The pipe holds the events back otherwise until half of the buffer is full.
        with suppress(OSError):
            self._write("buffer_percent", "0")
        self._pipe = os.open(self._folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        for name in self._names:
            self._enable(name)

    def _enable(self, name: str) -> None:
        group, _, event = name.partition(":")
        try:
            (self._folder / "events" / group / event / "enable").write_text("1")
        except FileNotFoundError:
            self.missing.append(name)

    def _write(self, name: str, value: str) -> None:
        (self._folder / name).write_text(value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the recording, and removes unread events."""
        self._end()

    def _end(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        with suppress(OSError):
            self._write("events/enable", "0")
        with suppress(OSError):
            self._folder.rmdir()

    @property
    def is_live(self) -> bool:
        """Whether events of the module are still recorded; they end when it is unloaded."""
        mine = (name for name in self._names if name.startswith("rpcrdma:"))
        name = next((name for name in mine if name not in self.missing), None)
        if name is None:
            return self._pipe is not None
        try:
            file = self._folder / "events" / name.replace(":", "/") / "enable"
            return file.read_text().startswith("1")
        except OSError:
            return False

    def set_filter(self, text: str, names: Iterable[str]) -> None:
        """Sets the filter of some of the events that are recorded; ``0`` records all of them."""
        for name in names:
            group, _, event = name.partition(":")
            with suppress(OSError):
                self._write(f"events/{group}/{event}/filter", text)

    def stop(self) -> None:
        """Ends recording. What was recorded can still be read."""
        with suppress(OSError):
            self._write("tracing_on", "0")

    def read(self, patience: float = 0) -> list[Event]:
        """Returns the events since the last call; waits up to `patience` seconds for one.

        More than 4 MiB of text are left for the next call: the events may arrive faster than the
        kernel writes their text.
        """
        if self._pipe is None:
            return []
        if patience:
            select.select([self._pipe], [], [], patience)
        text = self._rest + self._available(self._pipe)
        complete, newline, self._rest = text.rpartition("\n")
        # The name of a task may contain all that Python also takes for the end of a line.
        lines = complete.split("\n") if newline else []
        self.lost += lost(lines)
        return [event for event in map(parse_line, lines) if event]

    def _available(self, pipe: int) -> str:
        """Returns the text that can be read without waiting, up to a limit."""
        found = []
        for _ in range(_MOST // _CHUNK):
            try:
                data = os.read(pipe, _CHUNK)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EINTR):
                    break
                raise
            if not data:
                break
            found.append(data)
        return b"".join(found).decode(errors="replace")
