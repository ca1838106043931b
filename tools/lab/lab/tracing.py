# SPDX-License-Identifier: GPL-2.0
"""Records trace events of a guest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .pair import Guest

TRACING = "/sys/kernel/tracing"


@dataclass(frozen=True)
class Event:
    """One line of the trace."""

    #: Seconds since the guest's boot.
    time: float
    name: str
    #: The text that the event prints.
    text: str
    #: Name and number of the thread that was running.
    thread: str = ""


class Recorder:
    """Fetches the recorded events."""

    def __init__(self, guest: Guest) -> None:
        """Fetches nothing yet."""
        self._guest = guest

    def events(self, *names: str) -> list[Event]:
        """Returns the events so far in order, with `names` only those events."""
        text = self._guest.read(f"{TRACING}/trace")
        return [event for event in _parse(text) if not names or event.name in names]


@contextmanager
def recording(guest: Guest, events: Iterable[str]) -> Iterator[Recorder]:
    """Records events (`group:name`, `group:*`) of a guest inside the block.

    The events can also be fetched after the block, until the next recording.
    """
    enable = "".join(f" && echo '{event}' >> set_event" for event in events)
    guest.sh(f"cd {TRACING} && echo > set_event && echo > trace{enable}")
    try:
        yield Recorder(guest)
    finally:
        guest.sh(f"echo > {TRACING}/set_event")


def _parse(text: str) -> Iterator[Event]:
    for line in text.splitlines():
        found = re.match(r" *(.+-\d+) .* (\d+\.\d+): (\w+): (.*)", line)
        if found and not line.startswith("#"):
            yield Event(float(found[2]), found[3], found[4], found[1])
