# SPDX-License-Identifier: GPL-2.0
"""Events as lines of the trace have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(r"\s*(?P<thread>.+-\d+)\s+\[\d+\].*?\s(?P<time>\d+\.\d+): (?P<name>\w+): ?(.*)")
_TASK = re.compile(r"task:([0-9a-f]+@[0-9a-f]+)")
_XID = re.compile(r"xid=0x([0-9a-f]+)")
_REGION = re.compile(r"mr\.id=(\d+)")
_LOST = re.compile(r"LOST (\d+) EVENTS")


@dataclass(frozen=True)
class Event:
    """An event."""

    #: Seconds on the clock of the trace.
    time: float
    name: str
    #: The text that the event prints behind its name.
    text: str
    #: The thread that was running, as in ``nfsd-123``.
    thread: str = ""

    @property
    def pid(self) -> str:
        """The process id of the thread. The trace may have forgotten the thread's name."""
        return self.thread.rpartition("-")[2]

    @property
    def task(self) -> str:
        """The RPC task and its client, as in ``0000002a@00000005``; empty if the event has none."""
        found = _TASK.search(self.text)
        return found[1] if found else ""

    @property
    def xid(self) -> int | None:
        """The XID; None if the event has none."""
        found = _XID.search(self.text)
        return int(found[1], 16) if found else None

    @property
    def region(self) -> str:
        """The number of the memory region; empty if the event has none."""
        found = _REGION.search(self.text)
        return found[1] if found else ""

    @property
    def completion_queue(self) -> int:
        """The number of the completion queue; 0 if the event has none."""
        return self.number("cq.id")

    @property
    def work_request(self) -> tuple[int, int]:
        """The completion queue of a work request, and the number of the work request there."""
        return self.completion_queue, self.number("cid")

    @property
    def rest(self) -> str:
        """The text without the task."""
        return _TASK.sub("", self.text).strip()

    def value(self, name: str) -> str:
        """Returns the value of ``name=value`` in the text; empty if there is none."""
        found = re.search(rf"(?:^|\s){re.escape(name)}=(\S+)", self.text)
        return found[1] if found else ""

    def number(self, name: str) -> int:
        """Returns the number of ``name=value`` in the text; 0 if there is none."""
        try:
            return int(self.value(name), 0)
        except ValueError:
            return 0

    def as_json(self, begin: float) -> dict[str, Any]:
        """Returns the event for ``--json``, with the microseconds since `begin`."""
        return {"us": round((self.time - begin) * 1e6), "name": self.name, "text": self.rest}


def parse_line(line: str) -> Event | None:
    """Returns the event of a line; None for a comment, or a line of another form."""
    found = None if line.startswith("#") else _LINE.match(line)
    if not found:
        return None
    return Event(float(found["time"]), found["name"], found[4].strip(), found["thread"].strip())


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """Yields the events of lines, in their order."""
    return filter(None, map(parse_line, lines))


def lost(lines: Iterable[str]) -> int:
    """Returns how many events the kernel has dropped, as lines say."""
    return sum(int(found[1]) for found in map(_LOST.search, lines) if found)
