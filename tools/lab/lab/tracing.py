# SPDX-License-Identifier: GPL-2.0
"""Trace events of a guest while something happens in it."""

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
    #: What the event prints.
    text: str
    #: Name and number of the thread that was running.
    thread: str = ""


class Recorder:
    """Fetches what was recorded."""

    def __init__(self, guest: Guest) -> None:
        """Of this guest."""
        self._guest = guest

    def events(self, *names: str) -> list[Event]:
        """The events so far, in order; only those of these names, if any are given."""
        text = self._guest.read(f"{TRACING}/trace")
        return [event for event in _parse(text) if not names or event.name in names]


@contextmanager
def recording(guest: Guest, events: Iterable[str]) -> Iterator[Recorder]:
    """Record events (`group:name`, `group:*`) of a guest from here on.

    What was recorded can be fetched afterwards, too, until somebody else records.
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
